import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

// launch starts the Chromium at CHROMIUM, by default Debian's: the one that draws no windows takes half of the time.
const installed = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
export const launch = () =>
  chromium.launch({
    executablePath: process.env.CHROMIUM ?? installed.find(existsSync),
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-dev-shm-usage",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      "--no-first-run",
    ],
  });
