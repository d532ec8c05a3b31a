#pragma once
// Draws from distributions, the same on every machine with the same mathematical library.

#include <cstdint>

#include "backplane/status.hpp"
#include "core/engine/random.hpp"

namespace bp::base {
class Yaml;
}

namespace bp::simulate {

// Uniform numbers of one request for one purpose.
class Draws {
 public:
  Draws(uint64_t seed, uint32_t stream, uint32_t request, uint32_t purpose)
      : key_{seed, stream, request}, purpose_(purpose) {}
  // In [0, 1).
  double next() { return engine::uniform(key_, purpose_, n_++); }

 private:
  engine::DrawKey key_;
  uint32_t purpose_;
  uint32_t n_ = 0;
};

// With the given mean; cv is the standard deviation divided by it. cv 1 is exponential, 0 constant.
double draw_gamma(Draws& draws, double mean, double cv);
double draw_log_normal(Draws& draws, double mean, double cv);

// A number of tokens.
struct LengthDistribution {
  enum class Kind { kConstant, kUniform, kLogNormal, kGamma };
  Kind kind = Kind::kConstant;
  double mean = 1, cv = 0;
  uint32_t min = 1, max = 1;

  [[nodiscard]] uint32_t draw(Draws draws) const;
};

// A number, {min, max} for uniform, or {mean, cv, kind: log-normal or gamma, min, max}.
Result<LengthDistribution> read_length(const base::Yaml& node);

}  // namespace bp::simulate
