import { createContext, use } from "react";
import type { Socket } from "../api/socket";
import type { Me, Role } from "../api/types";

interface Context {
  me: Me;
  project: string;
  socket: Socket;
  /** Where the project's pages begin: "" for the caller's own, /p/{project} for another. */
  base: string;
}

export const AppContext = createContext<Context | null>(null);

function useContext(): Context {
  const context = use(AppContext);
  if (!context) throw new Error("there is no AppContext");
  return context;
}

/** useMe is who uses the console. */
export const useMe = () => useContext().me;

/** useProject is the id of the project that is shown. */
export const useProject = () => useContext().project;

/** useSocket is the connection that threads are followed on. */
export const useSocket = () => useContext().socket;

/** useBase is where the project's pages begin. */
export const useBase = () => useContext().base;

const ranks: Role[] = ["user", "viewer", "operator", "admin"];

/** useMay reports whether the caller may do what takes that role. Without accounts everybody is the only user, and all is theirs. */
export function useMay(role: Role): boolean {
  const me = useMe();
  return me.authentication === "none" || ranks.indexOf(me.role) >= ranks.indexOf(role);
}

/** useSeesOthers reports whether the caller is shown what is other users'. */
export function useSeesOthers(): boolean {
  const me = useMe();
  return me.authentication !== "none" && me.role !== "user";
}

/** useMayControl reports whether the caller may cancel, answer and append to what is that user's. */
export function useMayControl(user: string | undefined): boolean {
  return useMay("operator") || useOwns(user);
}

/** useMayDelete reports whether the caller may delete what is that user's. */
export function useMayDelete(user: string | undefined): boolean {
  return useMay("admin") || useOwns(user);
}

/** useOwns reports whether something is the caller's own. */
export function useOwns(user: string | undefined): boolean {
  const me = useMe();
  return user === undefined || user === me.user;
}
