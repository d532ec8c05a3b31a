/* A library beside the plugin that allocates for itself. */
#include <stdlib.h>

void* driver_malloc(size_t n_bytes) {
  void* volatile block = malloc(n_bytes);
  return block;
}
