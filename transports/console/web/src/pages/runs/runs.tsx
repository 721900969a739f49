/** The page Runs. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Runs</h1>
      </header>
    </div>
  );
}
