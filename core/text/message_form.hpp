#pragma once
// How a chat template wants what the messages of a conversation can say in several ways.

namespace bp::text {

class ChatTemplate;

struct MessageForm {
  bool argument_text = false;   // arguments of tool calls are JSON text; else objects
  bool null_content = false;    // a message that only calls tools has null for its text; else ""
  bool single_call = false;     // of a message's calls it shows one
  bool joins_thought = false;   // of a message that calls it takes reasoning or text, not both
  bool developer_role = false;  // it knows that role; else "system" stands for it
  bool system_role = true;      // it knows that one; else the user says it
};

// Found by trying: conversations that say each of it, of which the template refuses some.
MessageForm find_message_form(const ChatTemplate& chat);

}  // namespace bp::text
