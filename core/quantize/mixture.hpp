#pragma once
// What type each tensor of a model gets: the published mixtures of GGUF files, as data. Tensors go
// by their GGUF names.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backplane/dtype.h"
#include "backplane/status.hpp"

namespace bp::quantize {

// What the rules ask of a model.
struct ModelShape {
  std::string architecture;  // as GGUF files name it
  uint32_t n_layers = 0;
  // Those that have a matrix of attention's values, ascending: rules for values count them alone.
  // Empty: all.
  std::vector<uint32_t> value_layers = {};
  uint32_t heads_per_kv_head = 1;
  uint32_t n_experts = 0;
  bool has_output = true;  // or else the embeddings serve as such
  bool has_importance = false;
};

enum class Role : uint8_t {
  kOther,
  kEmbedding,
  kOutput,  // also embeddings that serve as output
  kAttnQ,
  kAttnK,
  kAttnV,  // also matrices that values share with queries and keys
  kAttnOutput,
  kFfnGate,
  kFfnUp,
  kFfnDown,
};

enum class Layers : uint8_t {
  kAll,
  kFirstTwo,
  kFirstFour,
  kFirstSixteenth,
  kFirstEighth,
  kSpread,  // the first and the last eighth, and every third between
  kMiddle,  // all but the first and the last eighth
};

enum class Only : uint8_t {
  kAlways,
  kSharedKv,           // at least four heads to a KV head: k and v are small
  kSharedKvOrExperts,  // the same, or at least four experts
  kEightExperts,
  kWithImportance,
  kWithoutImportance,
  kFalcon,
};

struct Rule {
  Role role;
  Layers layers;
  Only only;
  bp_dtype dtype;
};

struct Mixture {
  std::string_view name;             // "Q4_K_M"
  int32_t file_type;                 // GGUF's general.file_type
  bp_dtype dtype;                    // of what no rule names
  std::span<const Rule> rules = {};  // the first that applies
  std::span<const Rule> then = {};   // after them
};

// All names that find_mixture takes.
std::vector<std::string> mixture_names();
// Upper and lower case are the same. An error names the nearest.
Result<const Mixture*> find_mixture(std::string_view name);

// Whether a tensor is quantised at all: matrices of products and embeddings. Norms, biases,
// routers, positions and convolutions are not.
[[nodiscard]] bool is_quantised(std::string_view name, size_t n_dims);

// The layer whose matrix of attention's values this is; it is one of ModelShape's value_layers.
[[nodiscard]] std::optional<uint32_t> value_layer(std::string_view name);

struct ChosenType {
  bp_dtype dtype;
  bp_dtype wanted;  // by the mixture, where rows of `width` cannot be of it; or else the same
};
// Of one type for all.
ChosenType of_width(bp_dtype wanted, uint64_t width);
// Precondition: is_quantised(name, ..).
ChosenType choose_type(const Mixture& mixture, const ModelShape& shape, std::string_view name,
                       uint64_t width, bool is_stack_of_experts);

}  // namespace bp::quantize
