#include "core/config/kv_section.hpp"

#include <vector>

#include <fmt/format.h>

#include "backplane/dtype.hpp"
#include "core/base/nearest.hpp"
#include "core/config/sizes.hpp"

namespace bp::config {

using base::Yaml;

namespace {

// Any type by its name: which of them it keeps is the backend's to say.
Result<bp_dtype> kv_dtype(const std::string& name) {
  if (name == "auto") return BP_DTYPE_NONE;
  if (const auto dtype = dtype_from_name(name)) return *dtype;
  std::vector<std::string> names = {"auto"};
  for (bp_dtype t = 1; t < BP_DTYPE_COUNT; ++t) names.emplace_back(dtype_name(t));
  return invalid_argument(
      fmt::format("'{}' is no type of a KV cache, as f16 and q8_0 are, nor auto{}", name,
                  base::nearest_hint(name, names)));
}

Result<bp_dtype> read_dtype(const Yaml& node) {
  BP_ASSIGN(const std::string name, node.as_string());
  const auto dtype = kv_dtype(name);
  if (!dtype.ok()) return node.error(dtype.status().message());
  return *dtype;
}

}  // namespace

bool is_auto(const Yaml& node) {
  const auto text = node.as_string();
  return text.ok() && *text == "auto";
}

Status read_count(const Yaml& yaml, const std::string& key, int64_t max, uint32_t& out) {
  const auto node = yaml.find(key);
  if (!node || is_auto(*node)) return {};
  BP_ASSIGN(const int64_t n, node->as_int(1, max));
  out = static_cast<uint32_t>(n);
  return {};
}

Status read_kv(const Yaml& section, Backend& backend) {
  BP_TRY(section.expect_keys({"dtype", "k", "v", "memory", "block", "swap"}));
  if (const auto dtype = section.find("dtype")) {
    BP_ASSIGN(backend.k_dtype, read_dtype(*dtype));
    backend.v_dtype = backend.k_dtype;
  }
  if (const auto k = section.find("k")) {
    BP_ASSIGN(backend.k_dtype, read_dtype(*k));
  }
  if (const auto v = section.find("v")) {
    BP_ASSIGN(backend.v_dtype, read_dtype(*v));
  }
  if (const auto memory = section.find("memory"); memory && !is_auto(*memory)) {
    BP_ASSIGN(const std::string text, memory->as_string());
    backend.kv_bytes = parse_size(text);
    if (backend.kv_bytes.value_or(0) == 0) {
      return memory->error(fmt::format("'{}' is no size, as 2GiB is, nor auto", text));
    }
  }
  if (const auto swap = section.find("swap")) {
    BP_ASSIGN(const std::string text, swap->as_string());
    const auto n_bytes = parse_size(text);
    if (!n_bytes) return swap->error(fmt::format("'{}' is no size, as 2GiB is, nor 0B", text));
    backend.swap_bytes = *n_bytes;
  }
  if (const auto block = section.find("block")) backend.block_size_place = block->place();
  return read_count(section, "block", 4096, backend.block_size);
}

Status set_kv_types(const std::string& types, Backend& backend) {
  if (types.empty()) return {};
  const size_t comma = types.find(',');
  BP_ASSIGN(backend.k_dtype, kv_dtype(types.substr(0, comma)));
  BP_ASSIGN(backend.v_dtype, kv_dtype(comma == types.npos ? types : types.substr(comma + 1)));
  return {};
}

}  // namespace bp::config
