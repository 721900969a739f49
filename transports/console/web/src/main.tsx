import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { lost, Problem } from "./api/problem";
import { App } from "./app/app";
import { applyTheme } from "./app/theme";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/ui.css";
import "./styles/shell.css";
import "./styles/message.css";

applyTheme();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (n, error) => lost(error) || (!(error instanceof Problem) && n < 3),
      retryDelay: (n) => Math.min(5_000, 400 * 2 ** n),
      refetchOnWindowFocus: true,
      networkMode: "always", // a local server is reachable without a network
    },
    mutations: { networkMode: "always" },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <QueryClientProvider client={client}>
      <App />
    </QueryClientProvider>,
  );
}
