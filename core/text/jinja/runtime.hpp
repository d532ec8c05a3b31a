#pragma once
// What one render may spend and what it owns: fuel, memory, depth, the objects it made. One thread.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/text/jinja/error.hpp"
#include "core/text/jinja/template.hpp"
#include "core/text/jinja/value.hpp"

namespace bp::text::jinja {

// Counts bytes alive; going over the limit raises.
class MemoryMeter {
 public:
  explicit MemoryMeter(size_t limit) : limit_(limit) {}
  void add(size_t bytes) {
    if (bytes > limit_ - used_) fail_limit("the template needs more memory than it is allowed");
    used_ += bytes;
  }
  void release(size_t bytes) noexcept { used_ -= bytes; }

 private:
  size_t limit_;
  size_t used_ = 0;
};

class Runtime {
 public:
  explicit Runtime(const RenderOptions& options);

  void spend(uint64_t steps = 1) {
    if (steps > fuel_) fail_limit("the template runs longer than it is allowed");
    fuel_ -= steps;
  }
  // For copying or comparing text, for looking at each of its characters, for copying values.
  void spend_bytes(size_t bytes) { spend(1 + bytes / 256); }
  void spend_characters(size_t bytes) { spend(1 + bytes / 16); }
  void spend_values(size_t n) { spend(1 + n / 4); }
  // For looking something of this size up among n others.
  void spend_look_up(size_t bytes, size_t n) { spend((16 + bytes) * n / 256); }
  // Before text of this size is made.
  void check_text_size(size_t bytes) const {
    if (bytes > options_.max_output_bytes) fail_limit("text longer than the output limit");
  }

  Value text(std::string utf8, bool markup = false);
  List* list(std::vector<Value> items = {});
  Tuple* tuple(std::vector<Value> items);
  Iterator* iterator(std::vector<Value> items, const char* type = "generator");
  Dict* dict() { return make<Dict>(); }
  // Raises for lists, dicts and tuples that hold them; pays for comparing the key with n others.
  void check_key(const Value& key, size_t n = 0);
  // What the dict has under a key, or null.
  const Value* find(const Dict& dict, const Value& key);
  const Value* find(const Dict& dict, std::string_view key);
  void set(Dict& dict, Value key, Value value);
  void append(List& list, Value value);

  // The object lives until the render ends.
  template <class T, class... Args>
  T* make(Args&&... args) {
    spend();
    meter_.add(sizeof(T) + kObjectOverhead);
    auto object = std::make_unique<T>(std::forward<Args>(args)...);
    T* raw = object.get();
    objects_.push_back(std::move(object));
    return raw;
  }

  // The caller's mark, which nothing escapes.
  [[nodiscard]] bool is_mark(char32_t c) const {
    return options_.mark != nullptr && c == options_.mark->character;
  }
  // In UTF-8; empty: none.
  [[nodiscard]] const std::string& mark() const { return mark_; }
  // A part of a text, behind which other text may come than before: marked where words at its end
  // may go on there, and without a mark at its end.
  std::string cut(std::string_view part);

  MemoryMeter& meter() { return meter_; }
  const RenderOptions& options() const { return options_; }

  int line = 0;  // of the template, being evaluated

  // Every recursive walker holds one per level.
  class Level {
   public:
    explicit Level(Runtime& runtime) : runtime_(runtime) {
      if (runtime_.depth_ >= runtime_.options_.max_depth) fail_limit("nesting is too deep");
      ++runtime_.depth_;
    }
    ~Level() { --runtime_.depth_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    Runtime& runtime_;
  };

 private:
  static constexpr size_t kObjectOverhead = 32;

  const RenderOptions& options_;
  std::string mark_;
  uint64_t fuel_;
  int depth_ = 0;
  MemoryMeter meter_;  // outlives the objects
  std::vector<std::unique_ptr<Object>> objects_;
};

// Text under construction, within the limits of the render.
class Output {
 public:
  explicit Output(Runtime& runtime) : runtime_(runtime) {}
  ~Output() { runtime_.meter().release(charged_); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void append(std::string_view part) {
    runtime_.check_text_size(text_.size() + part.size());
    runtime_.spend_bytes(part.size());
    runtime_.meter().add(part.size());
    charged_ += part.size();
    text_.append(part);
  }
  std::string take() { return std::move(text_); }

 private:
  Runtime& runtime_;
  std::string text_;
  size_t charged_ = 0;
};

}  // namespace bp::text::jinja
