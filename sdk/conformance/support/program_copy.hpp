#pragma once
// A copy of a program whose growable structs may be those of another version, and may be changed.
// Bytes past a struct of this version are poisoned.

#include <cstring>
#include <deque>
#include <vector>

#include "backplane/program.h"

namespace bp::conformance {

inline constexpr uint32_t kGrowth = 64;  // bytes that a newer version has at its end
inline constexpr unsigned char kPoison = 0xa5;

// A growable struct as a newer version of it.
template <class T>
struct Newer {
  T value{};
  unsigned char tail[kGrowth];

  Newer() { std::memset(tail, kPoison, sizeof tail); }
  explicit Newer(const T& other, bool newer = true) : Newer() {
    value = other;
    value.struct_size = static_cast<uint32_t>(newer ? sizeof(Newer) : sizeof(T));
  }
  [[nodiscard]] bool is_tail_untouched() const {
    for (const unsigned char byte : tail) {
      if (byte != kPoison) return false;
    }
    return true;
  }
};

// What is past the first n_bytes of a struct becomes poison, as for a reader of a newer version.
template <class T>
[[nodiscard]] T older(const T& value, size_t n_bytes) {
  T out;
  std::memset(static_cast<void*>(&out), kPoison, sizeof out);
  std::memcpy(static_cast<void*>(&out), &value, n_bytes);
  out.struct_size = static_cast<uint32_t>(n_bytes);
  return out;
}

class ProgramCopy {
 public:
  explicit ProgramCopy(const bp_program& program, bool newer = false) : header_(program, newer) {
    for (uint32_t i = 0; i < program.n_weights; ++i) {
      weights_.emplace_back(*program.weights[i], newer);
      weight_table_.push_back(&weights_.back().value);
    }
    for (uint32_t i = 0; i < program.n_ops; ++i) {
      ops_.emplace_back(*program.ops[i], newer);
      ops_.back().value.attributes = copy_attributes(program.ops[i]->attributes, newer);
      op_table_.push_back(&ops_.back().value);
    }
    header_.value.weights = weight_table_.data();
    header_.value.ops = op_table_.data();
  }
  ProgramCopy(const ProgramCopy&) = delete;
  ProgramCopy& operator=(const ProgramCopy&) = delete;

  [[nodiscard]] const bp_program& program() const { return header_.value; }
  [[nodiscard]] bp_program& header() { return header_.value; }
  [[nodiscard]] bp_op& op(uint32_t i) { return ops_[i].value; }
  [[nodiscard]] bp_weight& weight(uint32_t i) { return weights_[i].value; }
  // The attributes of op i, or nullptr.
  [[nodiscard]] void* attributes(uint32_t i) { return const_cast<void*>(op(i).attributes); }
  // The first op of the kind, or BP_NONE.
  [[nodiscard]] uint32_t find_op(const char* kind) const {
    for (uint32_t i = 0; i < ops_.size(); ++i) {
      if (std::strcmp(ops_[i].value.kind, kind) == 0) return i;
    }
    return BP_NONE;
  }

 private:
  const void* copy_attributes(const void* attributes, bool newer) {
    if (attributes == nullptr) return nullptr;
    uint32_t size = 0;
    std::memcpy(&size, attributes, sizeof size);
    auto& words = attributes_.emplace_back((size + kGrowth) / sizeof(uint64_t) + 1);
    std::memset(words.data(), kPoison, words.size() * sizeof(uint64_t));
    std::memcpy(words.data(), attributes, size);
    if (newer) size += kGrowth;
    std::memcpy(words.data(), &size, sizeof size);
    return words.data();
  }

  Newer<bp_program> header_;
  std::deque<Newer<bp_weight>> weights_;
  std::deque<Newer<bp_op>> ops_;
  std::deque<std::vector<uint64_t>> attributes_;
  std::vector<const bp_weight*> weight_table_;
  std::vector<const bp_op*> op_table_;
};

}  // namespace bp::conformance
