#pragma once
// Many byte strings in one piece of memory. A vocabulary has 100,000 and more of a few bytes each:
// beside its bytes a text takes eight here, a std::string 32.

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace bp::text {

class TextList {
 public:
  TextList() = default;
  TextList(std::initializer_list<std::string_view> texts) {
    for (const std::string_view text : texts) push_back(text);
  }

  [[nodiscard]] size_t size() const { return places_.size(); }
  [[nodiscard]] bool empty() const { return places_.empty(); }
  [[nodiscard]] size_t n_bytes() const { return bytes_.size(); }  // of all texts
  // Valid until the list changes or moves. Precondition: i < size().
  [[nodiscard]] std::string_view operator[](size_t i) const {
    return {bytes_.data() + places_[i].begin, places_[i].size};
  }

  void reserve(size_t n_texts, size_t n_bytes) {
    places_.reserve(n_texts);
    bytes_.reserve(n_bytes);
  }
  void push_back(std::string_view text) { places_.push_back(store(text)); }
  // The bytes of the text that was there stay in memory. Precondition: i < size().
  void set(size_t i, std::string_view text) { places_[i] = store(text); }
  // Gives the memory back.
  void clear() {
    std::string().swap(bytes_);
    std::vector<Place>().swap(places_);
  }
  // New texts are empty.
  void resize(size_t n_texts) { places_.resize(n_texts); }

  class Iterator {
   public:
    using value_type = std::string_view;
    using difference_type = ptrdiff_t;
    Iterator() = default;
    Iterator(const TextList& list, size_t i) : list_(&list), i_(i) {}
    std::string_view operator*() const { return (*list_)[i_]; }
    Iterator& operator++() {
      ++i_;
      return *this;
    }
    Iterator operator++(int) {
      const Iterator before = *this;
      ++i_;
      return before;
    }
    bool operator==(const Iterator&) const = default;

   private:
    const TextList* list_ = nullptr;
    size_t i_ = 0;
  };
  [[nodiscard]] Iterator begin() const { return {*this, 0}; }
  [[nodiscard]] Iterator end() const { return {*this, size()}; }

 private:
  struct Place {
    uint32_t begin = 0;
    uint32_t size = 0;
  };

  Place store(std::string_view text) {
    constexpr size_t kMaxBytes = std::numeric_limits<uint32_t>::max();
    if (text.size() > kMaxBytes - bytes_.size()) throw std::length_error("a list of 4 GiB of text");
    const Place place = {static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())};
    bytes_.append(text);
    return place;
  }

  std::string bytes_;
  std::vector<Place> places_;
};

}  // namespace bp::text
