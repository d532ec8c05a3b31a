// libFuzzer entry: a file of any bytes is read or refused, and what was read can be used.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "backplane/format.h"
#include "formats/gguf/model.hpp"
#include "formats/gguf/split.hpp"

namespace {

using bp::gguf::HeaderBytes;
using bp::gguf::Model;
using bp::gguf::Part;

uint64_t sum(const void* data, uint64_t n_bytes) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  uint64_t total = 0;
  for (uint64_t i = 0; i < n_bytes; ++i) total += bytes[i];
  return total;
}

// Reads every byte that the model points to.
uint64_t use_metadata(const bp_metadata& entry) {
  uint64_t total = sum(entry.key.data, entry.key.size);
  if (entry.type == BP_META_BOOL) return total + sum(entry.data, entry.n);
  if (entry.type != BP_META_STRING) return total + sum(entry.data, entry.n * sizeof(uint64_t));
  const auto* strings = static_cast<const bp_str*>(entry.data);
  for (uint64_t i = 0; i < entry.n; ++i) total += sum(strings[i].data, strings[i].size);
  return total;
}

void require(bool holds) {
  if (!holds) std::abort();
}

void use(const bp_model_file& model, uint64_t file_bytes) {
  volatile uint64_t total = 0;
  for (uint64_t i = 0; i < model.n_metadata; ++i) total = total + use_metadata(model.metadata[i]);
  for (uint64_t i = 0; i < model.n_tensors; ++i) {
    const bp_tensor& tensor = model.tensors[i];
    total = total + sum(tensor.name.data, tensor.name.size);
    require(tensor.offset <= file_bytes && tensor.n_bytes <= file_bytes - tensor.offset);
    require(tensor.n_bytes > 0 && tensor.row_stride_bytes > 0);
    require(tensor.n_bytes % tensor.row_stride_bytes == 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto part = bp::gguf::read_part(HeaderBytes::of_memory("fuzz.gguf", {data, size}));
  if (!part.ok()) {
    // Leaves room for a path in the ABI's 508 bytes.
    require(!part.status().message().empty() && part.status().message().size() < 340);
    return 0;
  }
  require(!bp::gguf::count_parts(*part).ok() || *bp::gguf::count_parts(*part) == 1);
  std::vector<Part> parts;
  parts.push_back(*std::move(part));
  use(*Model(std::move(parts)).view(), size);
  return 0;
}
