#pragma once
// Extended grapheme clusters: what readers take for one character (Unicode Standard Annex 29,
// without its rule on Indic conjuncts).

#include <cstddef>
#include <string_view>

namespace bp::text::huggingface {

// Bytes of the first cluster. A byte that is not UTF-8 is one of its own. Precondition: text is not
// empty.
[[nodiscard]] size_t grapheme_size(std::string_view text);

}  // namespace bp::text::huggingface
