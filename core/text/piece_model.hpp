#pragma once
// What turns the pieces of a pre-tokenizer into ids.

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/text/merge.hpp"
#include "core/text/word_cache.hpp"

namespace bp::text {

// Of one text and one model.
struct PieceScratch {
  MergeScratch merge;
  WordCache words;
};

// Immutable. [any-thread]
class PieceModel {
 public:
  PieceModel() = default;
  virtual ~PieceModel() = default;
  PieceModel(const PieceModel&) = delete;
  PieceModel& operator=(const PieceModel&) = delete;

  // Appends the ids of a piece. `scratch` is the caller's, for any use.
  virtual void encode(std::string_view piece, PieceScratch& scratch,
                      std::vector<int32_t>& ids) const = 0;
};

}  // namespace bp::text
