// "bp.format/1" over Model.

#include "backplane/plugin.hpp"

#include <cstring>
#include <string_view>

#include "backplane/format.h"
#include "formats/gguf/model.hpp"

namespace {

using bp::gguf::Model;

uint32_t probe(const char*, uint32_t is_folder, const uint8_t* head, uint64_t n_head) {
  constexpr std::string_view kMagic = "GGUF";
  if (is_folder != 0 || head == nullptr || n_head < kMagic.size()) return 0;
  return std::memcmp(head, kMagic.data(), kMagic.size()) == 0 ? 100 : 0;
}

bp_status open(const bp_host*, const char* path, bp_model_file** out, bp_error* error) {
  return bp::guarded(error, [&]() -> bp::Status {
    if (path == nullptr || out == nullptr) return bp::invalid_argument("path and out are required");
    BP_ASSIGN(auto model, Model::open(path));
    *out = model.release()->view();
    return {};
  });
}

void close(bp_model_file* model) {
  if (model != nullptr) delete static_cast<Model*>(model->impl);
}

constexpr bp_format kFormat = {sizeof(bp_format), 0, probe, open, close, nullptr};

}  // namespace

BP_PLUGIN("gguf", "0.1.0", {BP_FORMAT_ID, &kFormat});
