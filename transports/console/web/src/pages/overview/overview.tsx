/** The page Overview. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Overview</h1>
      </header>
    </div>
  );
}
