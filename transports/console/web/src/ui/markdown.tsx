import { memo, useDeferredValue, useState } from "react";
import ReactMarkdown, { defaultUrlTransform, type Components } from "react-markdown";
import remarkGfm from "remark-gfm";
import { CopyIcon } from "./basics";
import { number } from "./format";
import { blocks, pieces } from "./blocks";
import { Picture } from "./picture";

const long = 60_000; // characters beyond which a text is shown unparsed, because parsing would block the page
const often = 6_000; // of a growing part, which is parsed at each word

const little = 500; // characters that are parsed at once
const defines = /^ {0,3}\[[^\]]+\]:/m; // a link reference to another part of the text
const many = 64; // pieces of a text that are shown at first

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

/** Markdown shows a Markdown text, without HTML. grows means that more text will follow. */
export const Markdown = memo(function Markdown({ text, grows = false }: { text: string; grows?: boolean }) {
  if (text.length > long) return <Plain text={text} />;
  if (grows) return <Growing text={text} />;
  return text.length > little ? <Later text={text} /> : <Block text={text} />;
});

// A slow text is shown unparsed first, and parsed when the page is idle.
function Later({ text }: { text: string }) {
  const ready = useDeferredValue(true, false);
  if (!ready) return <Plain text={text} />;
  const whole = text.length <= often || defines.test(text);
  return whole ? <Block text={text} /> : <Blocks text={text} most={long} />;
}

// Text that has arrived meanwhile may be long: it is parsed block by block.
function Growing({ text }: { text: string }) {
  return <Blocks text={useDeferredValue(text, "")} most={often} />;
}

const Blocks = memo(function Blocks({ text, most }: { text: string; most: number }) {
  return (
    <div className="blocks">
      {blocks(text).map((block, i) => (
        <Block key={i} text={block} most={most} />
      ))}
    </div>
  );
});

const Block = memo(function Block({ text, most = long }: { text: string; most?: number }) {
  if (text.length > most) return <Plain text={text} />;
  return (
    <div className="prose" dir="auto">
      <ReactMarkdown remarkPlugins={plugins} components={components} urlTransform={address}>
        {text}
      </ReactMarkdown>
    </div>
  );
});

/** Plain shows an unparsed text. Parts that are not visible are not rendered. */
export function Plain({ text }: { text: string }) {
  const [shown, setShown] = useState(many);
  const list = pieces(text, shown);
  const rest = text.length - list.reduce((n, p) => n + p.length, 0);
  return (
    <div className="prose raw">
      {list.map((piece, i) => (
        <Piece key={i} text={piece} />
      ))}
      {rest > 0 && (
        <button type="button" className="button small" onClick={() => setShown(shown * 2)}>
          {number(rest)} more characters
        </button>
      )}
    </div>
  );
}

const Piece = memo(function Piece({ text }: { text: string }) {
  return <div className="piece" dir="auto">{text}</div>;
});

// Images in the message itself are allowed; Picture decides.
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
