#include "core/text/chat_output/call_reader.hpp"

#include <algorithm>

namespace bp::text::chat {

bool CallReader::may_call(const CallContext& context, std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes) return false;
  if (context.syntax.only_known_tools) return find_tool(context.tools, name) != nullptr;
  return std::ranges::all_of(name, is_name_char);
}

}  // namespace bp::text::chat
