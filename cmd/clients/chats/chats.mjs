// All chats, in one browser.
import "./assistant.mjs";
import "./copilotkit.mjs";
