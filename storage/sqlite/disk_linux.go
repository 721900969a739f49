package sqlite

import "golang.org/x/sys/unix"

// networks are the file systems on other machines, or behind programs, by their numbers in statfs(2). Their locks and shared memory may
// not be those of a disk.
var networks = map[uint32]string{
	unix.NFS_SUPER_MAGIC:  "NFS",
	unix.SMB_SUPER_MAGIC:  "SMB",
	unix.SMB2_SUPER_MAGIC: "SMB",
	unix.CIFS_SUPER_MAGIC: "SMB",
	unix.FUSE_SUPER_MAGIC: "FUSE",
	unix.V9FS_MAGIC:       "9P",
	unix.CEPH_SUPER_MAGIC: "Ceph",
	unix.AFS_SUPER_MAGIC:  "AFS",
	unix.CODA_SUPER_MAGIC: "Coda",
	0x0bd00bd0:            "Lustre",
	0x01161970:            "GFS2",
	0x7461636f:            "OCFS2",
}

// Network returns the name of the file system of a file if it is not a disk of this machine, otherwise "".
func Network(path string) string {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return ""
	}
	return networks[uint32(fs.Type)] //nolint:gosec // the numbers have 32 bits
}
