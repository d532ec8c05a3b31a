"""Tool calls and reasoning: the official OpenAI client against a model that answers by script."""

import json
import os
import shutil
import tempfile
import unittest

from openai_client import needs_client, openai
from scripted_model import name_of, write_scripted_model
from support import SOURCE, Server, main


def tool(name, **properties):
    parameters = {"type": "object", "properties": {k: {"type": v} for k, v in properties.items()}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


TOOLS = [tool("get_weather", city="string", days="integer"), tool("get_time")]
HERMES = {
    "plain": "The weather is fine.",
    "one": 'Let me see.\n<tool_call>\n{"name": "get_weather", "arguments": '
    '{"city": "Rom", "days": 3}}\n</tool_call>',
    "thinking": "<think>\nWhich town?\n</think>\n\nOslo, then:<tool_call>"
    '{"name":"get_weather","arguments":{"city":"Oslø"}}</tool_call>\n<tool_call>{"name": '
    '"get_time"}</tool_call>',
    "broken": "I would <tool_call>[call] it.",
}


@needs_client
class Tools(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="backplane-tools-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        models = {
            "hermes": (HERMES, (), {}),
            "mistral": ({"call": '[TOOL_CALLS]get_time[ARGS]{"zone": "UTC"}'},
                        ("[TOOL_CALLS]", "[ARGS]"), {"output": "mistral"}),
        }  # fmt: skip
        served = []
        for name, (answers, control, chat) in models.items():
            path = os.path.join(cls.folder, f"{name}.gguf")
            write_scripted_model(path, answers, control)
            model = {"id": name, "source": path, "context": 1024, "chat": chat}
            served.append(model | {"sampler": {"defaults": {"temperature": 0}}})
        cls.server = Server(*served)
        cls.addClassCleanup(cls.server.stop)
        cls.client = openai.OpenAI(
            base_url=cls.server.url + "/v1", api_key="unused", max_retries=0, timeout=120
        )

    def ask(self, answer, model="hermes", **fields):
        messages = [{"role": "user", "content": name_of(answer)}]
        return self.client.chat.completions.create(
            model=model, messages=messages, tools=fields.pop("tools", TOOLS), **fields
        )

    def streamed(self, answer, **fields):
        """The message that the deltas of a stream add up to, and why it ended."""
        content, reasoning, calls, finish = "", "", [], None
        for chunk in self.ask(answer, stream=True, **fields):
            [choice] = chunk.choices
            content += choice.delta.content or ""
            reasoning += getattr(choice.delta, "reasoning_content", None) or ""
            for call in choice.delta.tool_calls or []:
                if call.index == len(calls):
                    self.assertTrue(call.id)
                    self.assertEqual(call.type, "function")
                    calls.append([call.function.name, ""])
                calls[call.index][1] += call.function.arguments
            finish = choice.finish_reason or finish
        return content, reasoning, [tuple(call) for call in calls], finish

    def whole(self, answer, **fields):
        choice = self.ask(answer, **fields).choices[0]
        message = choice.message
        calls = [(c.function.name, c.function.arguments) for c in message.tool_calls or []]
        reasoning = getattr(message, "reasoning_content", None)
        return message.content or "", reasoning or "", calls, choice.finish_reason

    def both(self, answer, **fields):
        whole = self.whole(answer, **fields)
        self.assertEqual(self.streamed(answer, **fields), whole)
        return whole

    def test_no_call(self):
        self.assertEqual(self.both("plain"), (HERMES["plain"], "", [], "stop"))

    def test_one_call(self):
        arguments = '{"city": "Rom", "days": 3}'
        calls = [("get_weather", arguments)]
        self.assertEqual(self.both("one"), ("Let me see.", "", calls, "tool_calls"))

    def test_reasoning_and_two_calls(self):
        calls = [("get_weather", '{"city":"Oslø"}'), ("get_time", "{}")]
        expected = ("Oslo, then:", "Which town?", calls, "tool_calls")
        self.assertEqual(self.both("thinking"), expected)

    def test_one_call_at_a_time(self):
        calls = [("get_weather", '{"city":"Oslø"}')]
        expected = ("Oslo, then:", "Which town?", calls, "tool_calls")
        self.assertEqual(self.both("thinking", parallel_tool_calls=False), expected)

    def test_what_is_no_call_is_content(self):
        self.assertEqual(self.both("broken"), (HERMES["broken"], "", [], "stop"))

    def test_without_tools(self):
        for fields in ({"tools": openai.NOT_GIVEN}, {"tool_choice": "none"}):
            self.assertEqual(self.both("one", **fields), (HERMES["one"], "", [], "stop"))

    def test_marks_that_are_control_tokens(self):
        expected = ("", "", [("get_time", '{"zone": "UTC"}')], "tool_calls")
        self.assertEqual(self.both("call", model="mistral"), expected)
        [call] = self.ask("call", model="mistral").choices[0].message.tool_calls
        self.assertRegex(call.id, r"^[0-9A-Za-z]{9}$")

    def test_several_choices(self):
        for choice in self.ask("one", n=3).choices:
            self.assertEqual(choice.finish_reason, "tool_calls")
            self.assertEqual(choice.message.tool_calls[0].function.name, "get_weather")

    def test_the_conversation_goes_on(self):
        message = self.ask("thinking").choices[0].message
        messages = [
            {"role": "user", "content": name_of("thinking")},
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "rain"},
            {"role": "tool", "tool_call_id": message.tool_calls[1].id, "content": "noon"},
            {"role": "user", "content": name_of("plain")},
        ]
        answer = self.client.chat.completions.create(
            model="hermes", messages=messages, tools=TOOLS
        )
        self.assertEqual(answer.choices[0].message.content, HERMES["plain"])
        prompt = self.server.post(
            "/v1/chat/completions/render", {"model": "hermes", "messages": messages, "tools": TOOLS}
        ).json()["prompt"]
        self.assertIn("<think>Which town?</think>Oslo, then:<tool_call>", prompt)
        self.assertIn('{"name": "get_weather", "arguments": {"city": "Oslø"}}', prompt)
        self.assertIn(json.dumps(TOOLS[1])[:40], prompt)

    def test_a_call_cannot_be_forced(self):
        with self.assertRaises(openai.BadRequestError) as refused:
            self.ask("one", tool_choice="required")
        self.assertEqual(refused.exception.param, "tool_choice")


if __name__ == "__main__":
    main()
