/** The page Waiting for you. */
export default function Page() {
  return (
    <div className="page">
      <header className="page-head">
        <h1>Waiting for you</h1>
      </header>
    </div>
  );
}
