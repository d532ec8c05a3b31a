#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "backplane/dtype.hpp"
#include "backplane/json_metadata.hpp"
#include "backplane/text.hpp"
#include "formats/safetensors/quantised.hpp"
#include "formats/safetensors/quantised_values.hpp"

namespace bp::safetensors {

namespace {

using Parts = std::map<std::string_view, Part>;

// Members of a quantised layer beside its weight.
constexpr std::array<std::string_view, 13> kSideParts = {"scales",
                                                         "qzeros",
                                                         "g_idx",
                                                         "weight_scale",
                                                         "weight_scale_inv",
                                                         "weight_shape",
                                                         "weight_g_idx",
                                                         "weight_zero_point",
                                                         "input_scale",
                                                         "output_scale",
                                                         "input_zero_point",
                                                         "output_zero_point",
                                                         "activation_scale"};

constexpr std::string_view kBlocks = "_blocks";
constexpr uint64_t kMxfp4Bytes = 16;
constexpr uint64_t kMxfp4Elements = 32;

// `quant_method` of checkpoints that are read.
constexpr std::array<std::string_view, 8> kMethods = {
    "auto-round", "awq", "compressed-tensors", "fbgemm_fp8", "fp8", "gptq", "modelopt", "mxfp4"};

struct Config {
  bool is_awq = false;
  bool zeros_are_less_one = true;  // GPTQ's first format stores zero - 1
  uint32_t bits = 4;
  uint64_t block_rows = 128;  // of scales in blocks
  uint64_t block_columns = 128;
  bp_dtype float_type = BP_DTYPE_BF16;
};

Status read_block_size(MetadataView metadata, const std::string& key, Config& config) {
  if (!metadata.contains(key)) return check_absent(metadata, key);
  BP_ASSIGN(const auto block, metadata.array<uint64_t>(key));
  if (block.size() != 2) {
    return invalid_argument("metadata \"" + key + "\": expected 2 sizes, found " +
                            std::to_string(block.size()));
  }
  config.block_rows = std::max<uint64_t>(block[0], 1);
  config.block_columns = std::max<uint64_t>(block[1], 1);
  return {};
}

Result<Config> read_config(MetadataView metadata) {
  Config config;
  const std::string prefix = "config.quantization_config.";
  BP_ASSIGN(const auto method,
            json_value_or<std::string_view>(metadata, prefix + "quant_method", ""));
  if (!method.empty() && std::ranges::find(kMethods, method) == kMethods.end()) {
    std::string known;
    for (const auto& one : kMethods) known += (known.empty() ? "" : ", ") + std::string(one);
    return unsupported("config.json: quantization_config.quant_method " + quote(method) +
                       " is unknown (known: " + known + ")");
  }
  config.is_awq = method == "awq";
  BP_ASSIGN(const auto form,
            json_value_or<std::string_view>(metadata, prefix + "checkpoint_format", ""));
  config.zeros_are_less_one = form != "gptq_v2";
  BP_ASSIGN(config.bits, json_value_or<uint32_t>(metadata, prefix + "bits", 4));
  BP_TRY(read_block_size(metadata, prefix + "weight_block_size", config));
  const auto text = [&](const std::string& key) {
    auto value = metadata.get_or<std::string_view>(key, "");
    return value.ok() ? *value : std::string_view();
  };
  const std::string_view dtype =
      text("config.torch_dtype").empty() ? text("config.dtype") : text("config.torch_dtype");
  if (dtype == "float16") config.float_type = BP_DTYPE_F16;
  if (dtype == "float32") config.float_type = BP_DTYPE_F32;
  return config;
}

bool is_byte(const TensorEntry& tensor) {
  return tensor.dtype == BP_DTYPE_I8 || tensor.dtype == BP_DTYPE_F8_E4M3 ||
         tensor.dtype == BP_DTYPE_F8_E5M2;
}

class Finder {
 public:
  Finder(const std::vector<Shard>& shards, const Config& config) : config_(config) {
    for (const Shard& shard : shards) {
      for (const TensorEntry& tensor : shard.tensors) {
        parts_.emplace(tensor.name, Part{&tensor, &shard.path});
      }
    }
  }

  Result<Quantised> find() {
    for (const auto& [name, part] : parts_) {
      const size_t dot = name.rfind('.');
      if (dot == std::string_view::npos) continue;
      const std::string layer(name.substr(0, dot + 1));
      const std::string_view last = name.substr(dot + 1);
      if (last == "qweight") {
        BP_TRY(add(layer, part, config_.is_awq ? Packing::kAwq : Packing::kGptq));
      } else if (last == "weight_packed") {
        BP_TRY(add(layer, part, Packing::kInRows));
      } else if (last == "weight" && is_byte(*part.tensor) &&
                 (has(layer + "weight_scale") || has(layer + "weight_scale_inv"))) {
        BP_TRY(add(layer, part, Packing::kPlain));
      } else if (last.ends_with(kBlocks) && part.tensor->dtype == BP_DTYPE_U8) {
        BP_TRY(add_mxfp4(part));
      }
    }
    std::sort(found_.parts.begin(), found_.parts.end());
    return std::move(found_);
  }

 private:
  [[nodiscard]] bool has(const std::string& name) const { return parts_.count(name) > 0; }
  [[nodiscard]] Part part(const std::string& name) const {
    const auto found = parts_.find(name);
    return found == parts_.end() ? Part{} : found->second;
  }

  Status add(const std::string& layer, const Part& weight, Packing packing) {
    QuantisedWeight w;
    w.name = layer + "weight";
    w.packing = packing;
    w.weight = weight;
    const bool packed = packing == Packing::kGptq || packing == Packing::kAwq;
    w.scales = part(layer + (packed ? "scales" : "weight_scale"));
    if (w.scales.tensor == nullptr) w.scales = part(layer + "weight_scale_inv");
    w.zeros = part(layer + (packed ? "qzeros" : "weight_zero_point"));
    if (packing != Packing::kAwq) {
      w.group_of_column = part(layer + (packed ? "g_idx" : "weight_g_idx"));
    }
    BP_TRY(set_shape(w, part(layer + "weight_shape")).with_context(place(w)));
    w.dims = {w.rows, w.columns};
    BP_TRY(set_groups(w).with_context(place(w)));
    BP_TRY(check_zeros(w).with_context(place(w)));
    BP_ASSIGN(w.dtype, choose_dtype(w, config_.float_type));
    if ((packing != Packing::kPlain && has(w.name)) || !names_.insert(w.name).second) {
      return invalid_argument(place(w) + ": it stands there in two forms");
    }
    found_.parts.push_back(weight.tensor);
    for (const std::string_view side : kSideParts) {
      const Part other = part(layer + std::string(side));
      if (other.tensor != nullptr) found_.parts.push_back(other.tensor);
    }
    found_.weights.push_back(std::move(w));
    return {};
  }

  // NAME_blocks beside NAME_scales stays NAME_blocks, with the scales in it.
  Status add_mxfp4(const Part& blocks) {
    const std::vector<uint64_t>& dims = blocks.tensor->dims;
    QuantisedWeight w;
    w.name = blocks.tensor->name;
    w.packing = Packing::kMxfp4;
    w.dtype = BP_DTYPE_MXFP4;
    w.weight = blocks;
    w.scales = part(w.name.substr(0, w.name.size() - kBlocks.size()) + "_scales");
    if (w.scales.tensor == nullptr) return {};
    const bool has_blocks =
        dims.size() > 2 && dims.back() == kMxfp4Bytes && blocks.tensor->n_bytes > 0;
    const auto n_scales = std::span(dims).first(dims.empty() ? 0 : dims.size() - 1);
    if (!has_blocks || w.scales.tensor->dtype != BP_DTYPE_U8 ||
        !std::ranges::equal(w.scales.tensor->dims, n_scales)) {
      return invalid_argument(place(w) + ": its blocks do not fit its scales");
    }
    w.dims.assign(n_scales.begin(), n_scales.end());
    w.dims.back() *= kMxfp4Elements;
    w.columns = w.dims.back();
    w.rows = blocks.tensor->n_bytes * 2 / w.columns;
    found_.parts.push_back(blocks.tensor);
    found_.parts.push_back(w.scales.tensor);
    found_.weights.push_back(std::move(w));
    return {};
  }

  static std::string place(const QuantisedWeight& w) {
    return shortened_path(*w.weight.path) + ": quantised weight " + quote(w.name);
  }

  Status set_shape(QuantisedWeight& w, const Part& shape) const {
    const TensorEntry& t = *w.weight.tensor;
    if (t.dims.size() != 2 || t.n_bytes == 0) return invalid_argument("its weight is no matrix");
    if (w.packing != Packing::kPlain && t.dtype != BP_DTYPE_I32) {
      return invalid_argument("its weight has the type " + std::string(dtype_name(t.dtype)));
    }
    w.rows = t.dims[0];
    w.columns = t.dims[1];
    if (w.packing == Packing::kPlain) return {};
    w.bits = config_.bits;
    if (w.packing == Packing::kInRows) {
      const auto dims = shape_of(shape);
      if (dims.size() != 2 || dims[0] != w.rows || dims[1] == 0) {
        return invalid_argument("weight_shape is missing or disagrees");
      }
      w.bits = dims[1] == w.columns * 8 ? 4 : dims[1] == w.columns * 4 ? 8 : 0;
      w.columns = dims[1];
      w.zero = 1 << (w.bits == 8 ? 7 : 3);
    }
    if (w.packing == Packing::kGptq) {
      std::swap(w.rows, w.columns);
      w.columns *= 32 / std::max(w.bits, 1u);
      w.zero = config_.zeros_are_less_one ? 1 : 0;
    }
    if (w.packing == Packing::kAwq) {
      std::swap(w.rows, w.columns);
      w.rows *= 8;
    }
    const bool four = w.bits == 4;
    if (four || (w.bits == 8 && w.packing != Packing::kAwq)) return {};
    return unsupported("it has " + std::to_string(w.bits) + " bits, supported are 4 and 8");
  }

  static std::vector<uint64_t> shape_of(const Part& shape) {
    std::vector<uint64_t> dims;
    if (shape.tensor == nullptr || shape.tensor->n_bytes > 64) return dims;
    const auto values = load_integers(shape);
    if (!values.ok()) return dims;
    for (const int64_t value : *values) dims.push_back(static_cast<uint64_t>(value));
    return dims;
  }

  // From the number of scales, the number of rows and columns that each is for.
  Status set_groups(QuantisedWeight& w) const {
    if (w.scales.tensor == nullptr) return invalid_argument("it has no scales");
    const TensorEntry& scales = *w.scales.tensor;
    if (scales.dtype != BP_DTYPE_F32 && scales.dtype != BP_DTYPE_F16 &&
        scales.dtype != BP_DTYPE_BF16) {
      return invalid_argument("its scales have the type " + std::string(dtype_name(scales.dtype)));
    }
    std::vector<uint64_t> dims = scales.dims;
    if (dims.empty()) dims = {1};
    if (dims.size() == 1) dims.push_back(1);
    if (w.packing == Packing::kGptq || w.packing == Packing::kAwq) std::swap(dims[0], dims[1]);
    const bool in_blocks = w.packing == Packing::kPlain;
    w.group_rows = size_of_group(w.rows, dims[0], config_.block_rows, in_blocks);
    w.group_columns = size_of_group(w.columns, dims[1], config_.block_columns, in_blocks);
    if (dims.size() == 2 && w.group_rows > 0 && w.group_columns > 0) return {};
    return invalid_argument("its scales do not fit its shape");
  }

  // 0 where n elements cannot be `groups` groups. in_blocks: the last one may be shorter than
  // `block`, also where groups of one size would divide n.
  static uint64_t size_of_group(uint64_t n, uint64_t groups, uint64_t block, bool in_blocks) {
    if (groups == 0 || groups > n) return 0;
    const bool fits_blocks = (n + block - 1) / block == groups;
    if (in_blocks && fits_blocks) return block;
    if (n % groups == 0) return n / groups;
    return fits_blocks ? block : 0;
  }

  static Status check_zeros(const QuantisedWeight& w) {
    if (w.group_of_column.tensor != nullptr && w.group_of_column.tensor->n_bytes > 0) {
      const TensorEntry& t = *w.group_of_column.tensor;
      if (t.dtype != BP_DTYPE_I32 || t.n_bytes != 4 * w.columns) {
        return invalid_argument("its g_idx does not fit its shape");
      }
    }
    if (w.zeros.tensor == nullptr) {
      const bool needs = w.packing == Packing::kGptq || w.packing == Packing::kAwq;
      return needs ? invalid_argument("it has no qzeros") : Status();
    }
    const TensorEntry& t = *w.zeros.tensor;
    if (w.packing != Packing::kPlain && w.columns % w.group_columns != 0) {
      return invalid_argument("its groups do not divide its columns");
    }
    const uint64_t groups = w.columns / w.group_columns;
    const uint64_t per_word = 32 / w.bits;
    const bool packed = w.packing != Packing::kPlain;
    const uint64_t n = packed ? groups * ((w.rows + per_word - 1) / per_word) : n_scales(w);
    const bool fits = packed ? t.dtype == BP_DTYPE_I32 && t.n_bytes == 4 * n && w.group_rows == 1
                             : t.dtype == BP_DTYPE_I8 && t.n_bytes == n;
    return fits ? Status() : invalid_argument("its zeros do not fit its shape");
  }

  const Config config_;
  Parts parts_;
  std::set<std::string> names_;
  Quantised found_;
};

}  // namespace

Result<Quantised> find_quantised(const std::vector<Shard>& shards, MetadataView metadata) {
  BP_ASSIGN(const Config config, read_config(metadata));
  return Finder(shards, config).find();
}

}  // namespace bp::safetensors
