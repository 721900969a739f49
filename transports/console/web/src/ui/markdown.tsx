import { memo } from "react";
import ReactMarkdown, { defaultUrlTransform, type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { CopyIcon } from "./basics";
import { Picture } from "./picture";

const long = 60_000; // characters beyond which a text is shown as it is: parsing it would make the page wait

const plugins = [remarkGfm];

const components: Components = {
  a: ({ href, children }) => (
    <a href={href} target="_blank" rel="noopener noreferrer nofollow">
      {children}
    </a>
  ),
  img: ({ src, alt }) => <Picture src={typeof src === "string" ? src : ""} alt={alt ?? ""} />,
  pre: ({ children, node }) => (
    <div className="block">
      <CopyIcon label="Copy code" text={() => plain(node)} />
      <pre tabIndex={0}>{children}</pre>
    </div>
  ),
  table: ({ children }) => (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table">
      <table className="table">{children}</table>
    </div>
  ),
};

/** Markdown shows a text as it is meant, without any HTML that stands in it. */
export const Markdown = memo(function Markdown({ text }: { text: string }) {
  if (text.length > long) return <div className="prose raw">{text}</div>;
  return (
    <div className="prose">
      <ReactMarkdown remarkPlugins={plugins} components={components} urlTransform={address}>
        {text}
      </ReactMarkdown>
    </div>
  );
});

// An image in the message itself is shown; Picture says which.
function address(url: string, attribute: string) {
  return attribute === "src" && url.startsWith("data:image/") ? url : defaultUrlTransform(url);
}

interface Node {
  value?: string;
  children?: unknown[];
}

function plain(node: unknown): string {
  const n = node as Node | undefined;
  return n?.value ?? n?.children?.map(plain).join("") ?? "";
}
