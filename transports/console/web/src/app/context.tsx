import { createContext, use } from "react";
import type { Socket } from "../api/socket";
import type { Me, Role } from "../api/types";
import { amount } from "../ui/format";

interface Context {
  me: Me;
  project: string;
  socket: Socket;
  /** Prefix of the project's pages: "" for the caller's default project, /p/{project} for others. */
  base: string;
}

export const AppContext = createContext<Context | null>(null);

function useContext(): Context {
  const context = use(AppContext);
  if (!context) throw new Error("there is no AppContext");
  return context;
}

/** useMe returns the caller. */
export const useMe = () => useContext().me;

/** useMoney returns a function that formats costs. */
export function useMoney(): (cost: number) => string {
  const { currency } = useMe();
  return (cost) => amount(cost, currency ?? "");
}

/** useProject returns the id of the shown project. */
export const useProject = () => useContext().project;

/** useSocket returns the connection that follows threads. */
export const useSocket = () => useContext().socket;

/** useBase returns the prefix of the project's pages. */
export const useBase = () => useContext().base;

const ranks: Role[] = ["user", "viewer", "operator", "admin"];

/** useMay reports whether the caller has at least a role. Without accounts everybody is the only user and may do everything. */
export function useMay(role: Role): boolean {
  const me = useMe();
  return me.authentication === "none" || ranks.indexOf(me.role) >= ranks.indexOf(role);
}

/** useSeesOthers reports whether the caller sees other users' data. */
export function useSeesOthers(): boolean {
  const me = useMe();
  return me.authentication !== "none" && me.role !== "user";
}

/** useMayControl reports whether the caller may cancel, answer and append to runs of a user. */
export function useMayControl(user: string | undefined): boolean {
  return useMay("operator") || useOwns(user);
}

/** useMayDelete reports whether the caller may delete data of a user. */
export function useMayDelete(user: string | undefined): boolean {
  return useMay("admin") || useOwns(user);
}

/** useOwns reports whether a user is the caller. */
export function useOwns(user: string | undefined): boolean {
  const me = useMe();
  return user === undefined || user === me.user;
}
