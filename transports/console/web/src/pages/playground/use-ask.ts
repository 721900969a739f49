import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useStart } from "../../api/actions";
import { say } from "../../api/problem";
import { edit } from "../../api/threads";
import type { Attachment } from "../../api/types";
import { useProject } from "../../app/context";
import type { Entry } from "../../log/transcript";
import { toast } from "../../ui/toast";
import { envelope, said } from "./request";
import type { Setup, Worker } from "./setup";

interface Given {
  threadId: string;
  setup: Setup;
  worker: Worker;
  change: (part: Partial<Setup>) => void;
  begun: () => void; // the thread exists from now on
  exists: boolean;
}

/** Ask is what can be asked on a thread. */
export interface Ask {
  say: (text: string, files: Attachment[], done: () => void) => void;
  again: (question: Entry) => void;
  edit: (message: Entry, content: unknown) => void;
  busy: boolean;
}

/** useAsk asks on a thread with its setup. */
export function useAsk({ threadId, setup, worker, change, begun, exists }: Given): Ask {
  const project = useProject();
  const queries = useQueryClient();
  const start = useStart();
  const request = envelope(setup, worker, threadId);
  const editing = useMutation({
    mutationFn: ({ message, content }: { message: Entry; content: unknown }) => edit(project, worker.name, request, message.id, content),
    onError: (error) => toast(say(error), "bad"),
    onSettled: () => void queries.invalidateQueries({ queryKey: ["runs"] }),
  });
  const sent = () => {
    change({ state: null });
    if (!exists) begun();
  };
  return {
    busy: start.isPending || editing.isPending,
    say: (text, files, done) =>
      start.mutate(said(request, text, files), {
        onSuccess: () => {
          sent();
          done();
        },
      }),
    again: (question) => start.mutate({ ...request, rewindTo: question.id }, { onSuccess: sent }),
    edit: (message, content) => editing.mutate({ message, content }, { onSuccess: sent }),
  };
}
