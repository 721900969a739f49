/** The page Admin. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Admin</h1>
      </header>
    </div>
  );
}
