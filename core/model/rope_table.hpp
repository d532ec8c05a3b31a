#pragma once
// Rotary position frequencies with every scaling rule folded in.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backplane/status.hpp"

namespace bp::model {

struct RopeParameters {
  int64_t n_dims = 0;  // rotated columns of a head, even
  double base = 10000;
  std::string scaling = "none";  // none or default, linear, dynamic, yarn, longrope, llama3
  double factor = 1;             // of the context's extension
  double original_context = 0;   // tokens the model was trained on; all but linear
  double context = 0;            // tokens that sequences may have; dynamic and longrope

  // yarn
  double beta_fast = 32;     // rotations over original_context above which nothing is interpolated
  double beta_slow = 1;      // and below which everything is
  double extrapolation = 1;  // share of the unscaled frequencies that is mixed in
  bool truncate = true;      // correction range rounded to whole dimensions
  std::optional<double> attention_factor;  // the magnitude; by default from factor or mscale
  double attention_multiplier = 1;         // times the default magnitude
  double mscale = 0, mscale_all_dim = 0;   // 0: not given

  // llama3
  double low_freq_factor = 1;
  double high_freq_factor = 4;

  std::vector<float> divisors;  // [n_dims/2] of each frequency, or empty
  // longrope: divisors [n_dims/2] of contexts up to the original one, and beyond it
  std::vector<double> short_divisors, long_divisors;
};

struct RopeTable {
  std::vector<float> inv_freq;  // [n_dims/2], radians per position
  double magnitude = 1;         // of the rotated vectors
};

Result<RopeTable> make_rope_table(const RopeParameters& p);

}  // namespace bp::model
