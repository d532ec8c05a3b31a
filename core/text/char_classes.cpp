#include "core/text/char_classes.hpp"

#include <unicode/uchar.h>
#include <unicode/uscript.h>

#include <algorithm>
#include <map>

namespace bp::text {
namespace {

using namespace char_class;

Mask classes_of_category(UCharCategory category) {
  struct Rule {
    uint32_t categories;
    Mask classes;
  };
  constexpr uint32_t kUncased = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
  constexpr Rule kRules[] = {
      {U_GC_L_MASK, kLetter},
      {U_GC_N_MASK, kNumber},
      {U_GC_MN_MASK, kAccent},
      {U_GC_P_MASK, kPunctuation},
      {U_GC_C_MASK, kOther},
      {U_GC_M_MASK, kMark},
      {U_GC_S_MASK, kSymbol},
      {U_GC_LU_MASK | U_GC_LT_MASK | kUncased, kUpperOrUncased},
      {U_GC_LL_MASK | kUncased, kLowerOrUncased},
      {U_GC_ND_MASK, kDigit},
      {U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_NL_MASK | U_GC_PC_MASK, kWordCharacter},
  };
  Mask classes = 0;
  for (const Rule& rule : kRules) {
    if (U_MASK(category) & rule.categories) classes |= rule.classes;
  }
  return classes;
}

void add_han(std::vector<Mask>& classes) {
  // Radicals to compatibility forms, then the planes of ideographs.
  constexpr char32_t kBlocks[][2] = {{0x2E80, 0xFAFF}, {0x16FE2, 0x16FF1}, {0x20000, 0x33FFF}};
  for (const auto& [first, last] : kBlocks) {
    for (char32_t c = first; c <= last; ++c) {
      UErrorCode error = U_ZERO_ERROR;
      const bool is_han = uscript_getScript(static_cast<UChar32>(c), &error) == USCRIPT_HAN;
      if (is_han && U_SUCCESS(error)) classes[c] |= kHan;
    }
  }
}

// The flags of every code point.
std::vector<Mask> classify_all(uint32_t n_code_points) {
  std::vector<Mask> classes(n_code_points);
  const auto fill = [](const void* context, UChar32 start, UChar32 limit,
                       UCharCategory category) -> UBool {
    auto& out = *static_cast<std::vector<Mask>*>(const_cast<void*>(context));
    std::fill(out.begin() + start, out.begin() + limit, classes_of_category(category));
    return true;
  };
  u_enumCharTypes(fill, &classes);
  // White space lies within the categories Z and Cc, which end below U+3001.
  for (UChar32 c = 0; c <= 0x3000; ++c) {
    if (u_isUWhiteSpace(c)) classes[static_cast<size_t>(c)] |= kSpace;
  }
  // Circled letters are alphabetic symbols; Oniguruma also has the Latin-1 powers and fractions.
  for (char32_t c = 0x24B6; c <= 0x24E9; ++c) classes[c] |= kWordCharacter;
  for (const char32_t c : {0xB2, 0xB3, 0xB9, 0xBC, 0xBD, 0xBE}) classes[c] |= kWordCharacter;
  add_han(classes);
  return classes;
}

}  // namespace

CharClasses::CharClasses() {
  const std::vector<Mask> classes = classify_all(kCodePoints);
  std::copy_n(classes.begin(), ascii_.size(), ascii_.begin());
  std::map<std::vector<Mask>, uint32_t> offset_of_page;
  for (uint32_t first = 0; first < kCodePoints; first += 1u << kPageBits) {
    const auto begin = classes.begin() + first;
    std::vector<Mask> page(begin, begin + (1u << kPageBits));
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
