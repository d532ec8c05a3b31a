#include "formats/pytorch/pickle.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <utility>

#include "backplane/byte_reader.hpp"
#include "backplane/text.hpp"
#include "formats/pytorch/globals.hpp"
#include "formats/pytorch/limits.hpp"
#include "formats/pytorch/rebuild.hpp"

namespace bp::pytorch {

namespace {

// Python's pickletools, as far as torch.save goes.
enum Opcode : uint8_t {
  kMark = '(',
  kStop = '.',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kBinPersId = 'Q',
  kReduce = 'R',
  kBinUnicode = 'X',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyList = ']',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr const char* kRemedy =
    "; where the file is trusted, convert it to safetensors (safetensors.torch.save_file)";

class Interpreter {
 public:
  explicit Interpreter(std::string_view bytes) : bytes_(bytes), reader_(bytes) {}

  Status run() {
    reader_.require(bytes_.size() <= kMaxPickleBytes, "a pickle of more than 64 MiB");
    reader_.require(reader_.number<uint8_t>() == kProto, "a pickle must begin with its protocol");
    const auto protocol = reader_.number<uint8_t>();
    reader_.require(protocol >= 2 && protocol <= 5,
                    "protocol " + std::to_string(protocol) + "; read are 2 to 5");
    for (uint64_t n = 0; reader_.ok() && !is_done_; ++n) {
      reader_.require(n < kMaxInstructions,
                      "more than " + std::to_string(kMaxInstructions) + " instructions");
      step(reader_.number<uint8_t>());
    }
    reader_.require(reader_.left() == 0, "bytes behind the end of the pickle");
    return reader_.ok() ? Status() : invalid_argument(reader_.fault());
  }

  Unpickled take() { return {std::move(arena_), root_}; }

 private:
  void step(uint8_t opcode) {
    switch (opcode) {
      case kMark:
        if (reader_.require(marks_.size() < kMaxMarks, "nested too deeply")) {
          marks_.push_back(stack_.size());
        }
        return;
      case kStop:
        return stop();
      case kNone:
        return push({});
      case kNewTrue:
        return push(true);
      case kNewFalse:
        return push(false);
      case kBinInt:
        return push(int64_t{reader_.number<int32_t>()});
      case kBinInt1:
        return push(int64_t{reader_.number<uint8_t>()});
      case kBinInt2:
        return push(int64_t{reader_.number<uint16_t>()});
      case kLong1:
        return push_long();
      case kBinFloat:
        return push(std::bit_cast<double>(__builtin_bswap64(reader_.number<uint64_t>())));
      case kShortBinUnicode:
        return push_text(reader_.number<uint8_t>());
      case kBinUnicode:
        return push_text(reader_.number<uint32_t>());
      case kBinUnicode8:
        return push_text(reader_.number<uint64_t>());
      case kFrame:
        reader_.require(reader_.number<uint64_t>() <= reader_.left(), "a frame beyond the end");
        return;
      default:
        return build_step(opcode);
    }
  }

  void build_step(uint8_t opcode) {
    switch (opcode) {
      case kEmptyList:
        return push_sequence(Kind::kList, {});
      case kEmptyTuple:
        return push_sequence(Kind::kTuple, {});
      case kEmptyDict:
        arena_.dicts.emplace_back();
        return push(Ref{Kind::kDict, static_cast<uint32_t>(arena_.dicts.size() - 1)});
      case kTuple1:
      case kTuple2:
      case kTuple3:
        return push_sequence(Kind::kTuple, pop_many(opcode - kTuple1 + 1u));
      case kTuple:
        return push_sequence(Kind::kTuple, pop_to_mark());
      case kAppend:
        return append(pop_many(1));
      case kAppends:
        return append(pop_to_mark());
      case kSetItem:
        return set_items(pop_many(2));
      case kSetItems:
        return set_items(pop_to_mark());
      case kBuild:
        return discard_state();
      case kBinPut:
        return put(reader_.number<uint8_t>());
      case kLongBinPut:
        return put(reader_.number<uint32_t>());
      case kMemoize:
        return put(memo_.size());
      case kBinGet:
        return get(reader_.number<uint8_t>());
      case kLongBinGet:
        return get(reader_.number<uint32_t>());
      default:
        return call_step(opcode);
    }
  }

  void call_step(uint8_t opcode) {
    switch (opcode) {
      case kGlobal: {
        const std::string_view module = line();
        return push_global(module, line());
      }
      case kStackGlobal: {
        const std::vector<Value> names = pop_many(2);
        if (!reader_.ok()) return;
        const auto* module = std::get_if<std::string_view>(&names[0]);
        const auto* name = std::get_if<std::string_view>(&names[1]);
        if (!reader_.require(module != nullptr && name != nullptr, "a global without a name")) {
          return;
        }
        return push_global(*module, *name);
      }
      case kReduce:
        return reduce();
      case kBinPersId:
        return push_storage();
      default:
        constexpr char kHex[] = "0123456789abcdef";
        reader_.require(false, std::string("opcode 0x") + kHex[opcode >> 4] + kHex[opcode & 15] +
                                   " is none of a state dict" + kRemedy);
    }
  }

  void stop() {
    if (!reader_.require(stack_.size() == 1 && marks_.empty(), "must end with one value")) return;
    root_ = stack_[0];
    is_done_ = true;
  }

  void push(Value value) {
    if (reader_.require(stack_.size() < kMaxStack, "too many values on the stack")) {
      stack_.push_back(value);
    }
  }

  void push_sequence(Kind kind, std::vector<Value> items) {
    if (!reader_.ok()) return;
    arena_.sequences.push_back(std::move(items));
    push(Ref{kind, static_cast<uint32_t>(arena_.sequences.size() - 1)});
  }

  // Two's complement of up to eight bytes.
  void push_long() {
    const size_t n = reader_.number<uint8_t>();
    if (!reader_.require(n <= 8, "a whole number of more than 64 bits")) return;
    const char* bytes = reader_.take(n);
    if (bytes == nullptr) return;
    uint64_t value = n > 0 && static_cast<int8_t>(bytes[n - 1]) < 0 ? UINT64_MAX : 0;
    for (size_t i = n; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[i]);
    push(static_cast<int64_t>(value));
  }

  void push_text(uint64_t n) {
    const char* bytes = reader_.take(n);
    if (bytes == nullptr) return;
    const std::string_view text(bytes, n);
    if (reader_.require(is_text(text), "a text is not UTF-8 without NUL")) push(text);
  }

  // Up to a line feed.
  std::string_view line() {
    const size_t at = bytes_.size() - reader_.left();
    const std::string_view rest = bytes_.substr(at, kMaxGlobalBytes);
    const size_t n = rest.find('\n');
    if (!reader_.require(n != std::string_view::npos, "a global's name without an end")) return {};
    reader_.take(n + 1);
    return rest.substr(0, n);
  }

  void push_global(std::string_view module, std::string_view name) {
    if (!reader_.ok()) return;
    const auto index = find_global(module, name);
    if (reader_.require(index.has_value(), "calls for " + quote(module) + " " + quote(name) +
                                               ", which is none of a state dict" + kRemedy)) {
      push(Ref{Kind::kGlobal, *index});
    }
  }

  // Above the innermost mark, or the stack's bottom.
  [[nodiscard]] size_t n_poppable() const {
    return stack_.size() - (marks_.empty() ? 0 : marks_.back());
  }

  std::vector<Value> pop_many(size_t n) {
    if (!reader_.require(n <= n_poppable(), "the stack holds too few values")) return {};
    const auto first = stack_.end() - static_cast<std::ptrdiff_t>(n);
    std::vector<Value> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    return values;
  }

  std::vector<Value> pop_to_mark() {
    if (!reader_.require(!marks_.empty(), "there is no mark on the stack")) return {};
    std::vector<Value> values = pop_many(n_poppable());
    marks_.pop_back();
    return values;
  }

  // What lies on top, if it is of one of the kinds.
  const Ref* top(Kind kind, Kind or_kind) {
    const Ref* ref = n_poppable() == 0 ? nullptr : std::get_if<Ref>(&stack_.back());
    return ref != nullptr && (ref->kind == kind || ref->kind == or_kind) ? ref : nullptr;
  }

  void append(const std::vector<Value>& items) {
    if (!reader_.ok()) return;
    const Ref* list = top(Kind::kList, Kind::kList);
    if (!reader_.require(list != nullptr, "values are appended to what is no list")) return;
    auto& values = arena_.sequences[list->index];
    values.insert(values.end(), items.begin(), items.end());
  }

  void set_items(const std::vector<Value>& items) {
    if (!reader_.ok()) return;
    const Ref* dict = top(Kind::kDict, Kind::kOrderedDict);
    if (!reader_.require(dict != nullptr && items.size() % 2 == 0,
                         "members are set of what is no dict, or half of one")) {
      return;
    }
    Members& members = arena_.dicts[dict->index];
    for (size_t i = 0; i < items.size(); i += 2) members.emplace_back(items[i], items[i + 1]);
  }

  // state_dict() leaves an attribute `_metadata` on its OrderedDict, of which nothing is needed.
  void discard_state() {
    const std::vector<Value> state = pop_many(1);
    if (!reader_.ok()) return;
    const Ref* dict = std::get_if<Ref>(&state[0]);
    reader_.require(dict != nullptr && dict->kind == Kind::kDict &&
                        top(Kind::kOrderedDict, Kind::kOrderedDict) != nullptr,
                    "state is set on what is no OrderedDict");
  }

  void put(uint64_t index) {
    reader_.require(index <= memo_.size() && index < kMaxMemo, "the memo is filled out of order");
    if (!reader_.require(n_poppable() > 0, "the stack holds too few values")) return;
    if (index == memo_.size()) memo_.emplace_back();
    memo_[index] = stack_.back();
  }

  void get(uint64_t index) {
    if (reader_.require(index < memo_.size(), "the memo holds no value " + std::to_string(index))) {
      push(memo_[index]);
    }
  }

  // The values of a tuple, or a fault.
  std::span<const Value> tuple(const Value& value) {
    const Ref* ref = std::get_if<Ref>(&value);
    const bool is_tuple = ref != nullptr && ref->kind == Kind::kTuple;
    if (!reader_.require(is_tuple, "a tuple must lie on the stack")) return {};
    return arena_.sequences[ref->index];
  }

  void push_result(const Result<Value>& result) {
    if (reader_.require(result.ok(), result.ok() ? "" : result.status().message())) push(*result);
  }

  void reduce() {
    const std::vector<Value> call_of = pop_many(2);
    if (!reader_.ok()) return;
    const Ref* function = std::get_if<Ref>(&call_of[0]);
    const bool is_global = function != nullptr && function->kind == Kind::kGlobal;
    reader_.require(is_global, "what is called is no function");
    const std::span<const Value> arguments = tuple(call_of[1]);
    if (reader_.ok()) push_result(call(global_at(function->index), arguments, arena_));
  }

  void push_storage() {
    const std::vector<Value> id = pop_many(1);
    if (!reader_.ok()) return;
    const std::span<const Value> values = tuple(id[0]);
    if (reader_.ok()) push_result(load_storage(values, arena_));
  }

  std::string_view bytes_;
  ByteReader reader_;
  Arena arena_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<Value> memo_;
  Value root_;
  bool is_done_ = false;
};

}  // namespace

Result<Unpickled> unpickle(const std::string& subject, std::string_view bytes) {
  Interpreter interpreter(bytes);
  BP_TRY(interpreter.run().with_context(subject));
  return interpreter.take();
}

}  // namespace bp::pytorch
