/** The page Threads. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Threads</h1>
      </header>
    </div>
  );
}
