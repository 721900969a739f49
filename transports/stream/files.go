package stream

// Files is how many files a process may have open for its clients beside their connections: one in so many of its descriptors,
// but one at least, and most at most.
func Files(oneIn, most int) int { return max(min(descriptors()/oneIn, most), 1) }
