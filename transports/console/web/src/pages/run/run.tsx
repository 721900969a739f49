/** The page of one run. */
export default function Page({ runId }: { runId: string }) {
  return (
    <div className="page">
      <header className="page-head">
        <h1>{runId}</h1>
      </header>
    </div>
  );
}
