#include "core/text/char_classes.hpp"

#include <unicode/uchar.h>

#include <algorithm>
#include <map>

namespace bp::text {
namespace {

uint8_t classes_of_category(UCharCategory category) {
  const uint32_t mask = U_MASK(category);
  if (mask & U_GC_L_MASK) return char_class::kLetter;
  if (mask & U_GC_N_MASK) return char_class::kNumber;
  if (mask & U_GC_MN_MASK) return char_class::kAccent;
  if (mask & U_GC_P_MASK) return char_class::kPunctuation;
  if (mask & U_GC_C_MASK) return char_class::kOther;
  return 0;
}

// One byte of flags for every code point.
std::vector<uint8_t> classify_all(uint32_t n_code_points) {
  std::vector<uint8_t> classes(n_code_points);
  const auto fill = [](const void* context, UChar32 start, UChar32 limit,
                       UCharCategory category) -> UBool {
    auto& out = *static_cast<std::vector<uint8_t>*>(const_cast<void*>(context));
    std::fill(out.begin() + start, out.begin() + limit, classes_of_category(category));
    return true;
  };
  u_enumCharTypes(fill, &classes);
  // White space lies within the categories Z and Cc, which end below U+3001.
  for (UChar32 c = 0; c <= 0x3000; ++c) {
    if (u_isUWhiteSpace(c)) classes[static_cast<size_t>(c)] |= char_class::kSpace;
  }
  return classes;
}

}  // namespace

CharClasses::CharClasses() {
  const std::vector<uint8_t> classes = classify_all(kCodePoints);
  std::copy_n(classes.begin(), ascii_.size(), ascii_.begin());
  std::map<std::vector<uint8_t>, uint32_t> offset_of_page;
  for (uint32_t first = 0; first < kCodePoints; first += 1u << kPageBits) {
    const auto begin = classes.begin() + first;
    std::vector<uint8_t> page(begin, begin + (1u << kPageBits));
    const auto [at, is_new] =
        offset_of_page.emplace(std::move(page), static_cast<uint32_t>(pages_.size()));
    if (is_new) pages_.insert(pages_.end(), at->first.begin(), at->first.end());
    page_of_.push_back(at->second);
  }
}

const CharClasses& CharClasses::get() {
  static const CharClasses classes;
  return classes;
}

}  // namespace bp::text
