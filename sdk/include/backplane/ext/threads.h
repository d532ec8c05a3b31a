/* backplane/ext/threads.h: host extension "bp.threads/1", one team of workers for all models.
 *
 *  1. One step holds the team at a time; others wait their turn. The caller is worker 0, worker i keeps
 *     its core, so that slices of weights and KV heads stay with their workers.
 *  2. Inside run_team workers meet at barrier, or wait for words to change; they spin, then sleep.
 *  3. Between steps the team gives up its cores within 50 us.
 */
#ifndef BACKPLANE_EXT_THREADS_H_
#define BACKPLANE_EXT_THREADS_H_

#include "backplane/plugin.h"

#ifdef __cplusplus
extern "C" {
#endif

#define BP_THREADS_ID "bp.threads/1"

typedef struct bp_team bp_team; /* opaque; valid inside run_team */

/* The extension. Growable. */
typedef struct bp_threads {
  uint32_t struct_size;
  uint32_t n_threads; /* size of the team, at least 1 */
  void* user;         /* passed back as the first argument */

  /* Runs fn(argument, worker, n, team) on n workers (0: all; more than n_threads: n_threads) and
   * returns when all are done. fn must not throw, nor call run_team or parallel_for. [any-thread] */
  void (*run_team)(void* user, uint32_t n,
                   void (*fn)(void* argument, uint32_t worker, uint32_t n, bp_team* team),
                   void* argument);

  /* Waits for all workers of the running team. Only inside fn, by every worker alike. */
  void (*barrier)(bp_team* team);

  /* fn(argument, i) for i in [0, n), in any order, on any workers; for loading, preparation and
   * transfers. fn must not throw, nor call run_team or parallel_for. [any-thread], not inside fn of
   * run_team. */
  void (*parallel_for)(void* user, uint64_t n, void (*fn)(void* argument, uint64_t i),
                       void* argument);

  /* Optional, as wake. Waits, as worker `worker` of the running team, until *word, written and read as an
   * atomic, is no longer `old`; returns what it is then. A host may lend the core of a worker that waits to
   * one that does not and has lost its own. Only inside fn. */
  uint32_t (*wait)(bp_team* team, uint32_t worker, const uint32_t* word, uint32_t old);

  /* Wakes at most n workers that wait for *word, which the caller has changed. Only inside fn. */
  void (*wake)(bp_team* team, const uint32_t* word, uint32_t n);
} bp_threads;

#ifdef __cplusplus
}
#endif
#endif /* BACKPLANE_EXT_THREADS_H_ */
