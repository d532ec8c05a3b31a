#pragma once
// For plugins and hosts that start threads: signals are for the threads of the host's choice.

#include <pthread.h>
#include <signal.h>

#include <initializer_list>

namespace bp {

// While it lives, threads that the calling one starts get no signals but their own faults.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    // Faults of the thread itself: blocked, they would end the process without a word.
    for (const int fault : {SIGBUS, SIGSEGV, SIGFPE, SIGILL}) sigdelset(&all, fault);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace bp
