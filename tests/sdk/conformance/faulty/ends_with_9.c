/* Preloaded: a process that ends well ends with 9, as under a sanitizer that has found something.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

void _exit(int status) {
  syscall(SYS_exit_group, status == 0 ? 9 : status);
  for (;;) {
  }
}
