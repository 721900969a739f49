import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNamed, useStart } from "../../api/actions";
import { edit } from "../../api/threads";
import type { Attachment } from "../../api/types";
import { useProject } from "../../app/context";
import type { Entry } from "../../log/transcript";
import { failed } from "../../ui/toast";
import { begins, envelope, said } from "./request";
import type { Setup, Worker } from "./setup";

interface Given {
  threadId: string;
  setup: Setup;
  worker: Worker;
  change: (part: Partial<Setup>) => void;
  begun: () => void; // the thread exists now
  exists: boolean;
}

/** Ask is the requests that a thread accepts. */
export interface Ask {
  say: (text: string, files: Attachment[], done: () => void) => void;
  again: (question: Entry) => void;
  edit: (message: Entry, text: string) => void;
  busy: boolean;
}

/** useAsk makes requests on a thread with its setup. */
export function useAsk({ threadId, setup, worker, change, begun, exists }: Given): Ask {
  const project = useProject();
  const queries = useQueryClient();
  const start = useStart();
  const named = useNamed();
  const request = envelope(setup, worker, threadId);
  const editing = useMutation({
    mutationFn: ({ message, text }: { message: Entry; text: string }) =>
      named(request, text, (named) => edit(project, worker.name, named, message.id, text)),
    onError: failed,
    onSettled: () => void queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  const sent = () => {
    change({ state: null, before: null });
    if (!exists) begun();
  };
  return {
    busy: start.isPending || editing.isPending,
    say: (text, files, done) =>
      start.mutate(said(request, text, files, begins(setup) ?? []), {
        onError: failed,
        onSuccess: () => {
          sent();
          done();
        },
      }),
    again: (question) => start.mutate({ ...request, rewindTo: question.id }, { onError: failed, onSuccess: sent }),
    edit: (message, text) => editing.mutate({ message, text }, { onSuccess: sent }),
  };
}
