#include "core/text/chat_output/marks.hpp"

namespace bp::text::chat {

FoundMark mark_at(std::string_view text, size_t at, const Marks& marks, bool at_end) {
  const std::string_view rest = text.substr(at);
  FoundMark found{text.size(), nullptr};
  for (const Mark& mark : marks) {
    if (rest.starts_with(mark.text)) {
      const bool is_longer = found.mark == nullptr || mark.text.size() > found.mark->text.size();
      if (is_longer) found = {at, &mark};
    } else if (!at_end && mark.text.starts_with(rest)) {
      return {at, nullptr};
    }
  }
  return found;
}

FoundMark find_mark(std::string_view text, const Marks& marks, bool at_end) {
  for (size_t at = 0; at < text.size(); ++at) {
    const FoundMark found = mark_at(text, at, marks, at_end);
    if (found.at == at) return found;
  }
  return {text.size(), nullptr};
}

}  // namespace bp::text::chat
