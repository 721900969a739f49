/** The page Agents. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Agents</h1>
      </header>
    </div>
  );
}
