/** The page Playground. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Playground</h1>
      </header>
    </div>
  );
}
