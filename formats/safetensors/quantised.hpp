#pragma once
// Weights of checkpoints quantised by GPTQ, AWQ, compressed-tensors, in 8-bit floats or in MXFP4:
// several tensors of the file that are one weight of the model.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/dtype.h"
#include "backplane/metadata.hpp"
#include "backplane/status.hpp"
#include "formats/safetensors/shard.hpp"

namespace bp::safetensors {

struct Part {
  const TensorEntry* tensor = nullptr;
  const std::string* path = nullptr;
};

enum class Packing {
  kPlain,   // [rows, columns] of I8 or an 8-bit float
  kInRows,  // [rows, columns / per word]: compressed-tensors
  kGptq,    // [columns / per word, rows]
  kAwq,     // [columns, rows / 8], four bits each in the order of its kernels
  kMxfp4,   // [rows, columns / 32, 16]: elements 2 j and 2 j + 1 in byte j, exponents as scales
};

// value = scale * (stored - zero), with a scale and a zero for each group of columns (and of rows).
struct QuantisedWeight {
  std::string name;  // of the weight it is
  Packing packing = Packing::kPlain;
  uint32_t bits = 8;
  uint64_t rows = 0;
  uint64_t columns = 0;
  std::vector<uint64_t> dims;  // outermost first: the rows in one or more, and the columns
  uint64_t group_rows = 0;     // rows that share a scale
  uint64_t group_columns = 0;  // columns that share a scale
  int32_t zero = 0;            // where there are no zeros: of every group; else added to them
  Part weight, scales, zeros;
  Part group_of_column;  // g_idx, weight_g_idx
  // What it is read as: a block type where that is exact, else the float type of the model.
  bp_dtype dtype = BP_DTYPE_NONE;

  // Rows one after another.
  [[nodiscard]] Status read(uint64_t first_row, uint64_t n_rows, void* destination) const;
};

struct Quantised {
  std::vector<QuantisedWeight> weights;
  std::vector<const TensorEntry*> parts;  // sorted; what the weights are made of
};

// The shards outlive the result.
Result<Quantised> find_quantised(const std::vector<Shard>& shards, MetadataView metadata);

}  // namespace bp::safetensors
