import * as icons from "./icons";

/** Picture shows an image of this server or in the message itself. An image of another host is a link: viewing a message contacts no other host. */
export function Picture({ src, alt }: { src: string; alt: string }) {
  if (own(src)) return <img className="picture" src={src} alt={alt} loading="lazy" />;
  if (!/^https?:/i.test(src)) return <span className="muted">{alt || "image"}</span>;
  return (
    <a href={src} target="_blank" rel="noopener noreferrer nofollow">
      <icons.External /> {alt || src}
    </a>
  );
}

function own(src: string) {
  if (/^data:image\/(png|jpeg|gif|webp);/i.test(src) || src.startsWith("blob:")) return true;
  try {
    return src !== "" && new URL(src, location.href).origin === location.origin && !/^\w+:/.test(src.replace(location.origin, ""));
  } catch {
    return false;
  }
}
