"""Chat text to token ids, such that what the model emitted is never encoded again."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, final

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

_PROBE_REPLY = "<think>why</think>\n\n[probe]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    """One conversation up to the point where the model replies."""

    messages: tuple[tuple[str, str], ...]
    """(role, text) of every message so far."""
    prompt_ids: tuple[int, ...]
    """The context in front of the next reply."""


@final
class ChatFormat:
    """Renders conversations with a tokenizer's own chat template.

    Token in, token out: the next prompt is the prompt, the emitted reply and a suffix that holds
    the end of the turn and the next message. Only a template that rewrites earlier turns (some
    strip their reasoning) is rendered anew each turn; the prompt then does not extend the tokens
    before it, and `experience.samples` starts a new sample there.

    Example:
        >>> chat = ChatFormat(tokenizer)
        >>> dialogue = chat.start("You play chess.", "Your move.")
        >>> dialogue = chat.extend(dialogue, emitted_ids, "e5. Your move.")
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        if tokenizer.chat_template is None:
            raise ValueError(
                f"the tokenizer of {tokenizer.name_or_path!r} has no chat template: "
                "take a chat model, or give its tokenizer a chat_template"
            )
        self._tokenizer = tokenizer
        self._system_role = self._renders((("system", "rules"), ("user", "board")))
        first = (("system", "rules"), ("user", "board"))
        later = (*first, ("assistant", _PROBE_REPLY), ("user", "next"))
        begin, whole = self._render(first), self._render(later)
        self.append_only = whole.startswith(begin + _PROBE_REPLY)
        """Whether the template leaves earlier turns as they were."""
        first_of_suffix = self._encode(self._suffix_text("next"))[0]
        stop_ids = [
            token_id
            for token_id in (first_of_suffix, tokenizer.eos_token_id)
            if isinstance(token_id, int) and token_id in tokenizer.all_special_ids
        ]
        if not stop_ids:
            raise ValueError(
                f"the chat template of {tokenizer.name_or_path!r} ends a turn with no special "
                "token, and its tokenizer has no eos_token: a reply would never end"
            )
        self.stop_ids = frozenset(stop_ids)
        """Tokens that end a reply."""
        self._end_id = stop_ids[0]
        # Text of the same board comes back thousands of times in a run.
        self._suffix_ids = lru_cache(maxsize=1 << 16)(self._encode_suffix)
        self._prompt_ids = lru_cache(maxsize=1 << 12)(self._encode_prompt)
        self.encode_reply = lru_cache(maxsize=1 << 12)(self._encode_reply)
        """Writes a whole reply as a model would emit it, the end of the turn included."""

    def start(self, system: str, user: str) -> Dialogue:
        """Open a conversation with a system message (none if empty) and the first user message."""
        messages = (("system", system), ("user", user)) if system else (("user", user),)
        return self.open(messages)

    def open(self, messages: tuple[tuple[str, str], ...]) -> Dialogue:
        """Take up a conversation of (role, text), up to its next reply."""
        return Dialogue(messages=messages, prompt_ids=self._prompt_ids(messages))

    def extend(self, dialogue: Dialogue, reply_ids: Sequence[int], user: str) -> Dialogue:
        """Add the emitted reply and the next user message."""
        messages = (*dialogue.messages, ("assistant", self.decode(reply_ids)), ("user", user))
        if not self.append_only:
            return Dialogue(messages=messages, prompt_ids=self._prompt_ids(messages))
        suffix = self._suffix_ids(user)
        # A reply that was cut lacks the token that ends a turn; the suffix then brings it.
        if reply_ids and reply_ids[-1] == suffix[0] == self._end_id:
            suffix = suffix[1:]
        prompt_ids = (*dialogue.prompt_ids, *reply_ids, *suffix)
        return Dialogue(messages=messages, prompt_ids=prompt_ids)

    def decode(self, reply_ids: Sequence[int]) -> str:
        """Turn an emitted reply into text for the parser, without its special tokens."""
        return str(self._tokenizer.decode(list(reply_ids), skip_special_tokens=True))

    def _encode_reply(self, text: str) -> tuple[int, ...]:
        return (*self._encode(text), self._end_id)

    def _encode_suffix(self, user: str) -> tuple[int, ...]:
        return tuple(self._encode(self._suffix_text(user)))

    def _encode_prompt(self, messages: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
        return tuple(self._encode(self._render(messages)))

    def _suffix_text(self, user: str) -> str:
        marker = "[[reply]]"
        conversation = (
            ("system", "rules"),
            ("user", "board"),
            ("assistant", marker),
            ("user", user),
        )
        return self._render(conversation).rsplit(marker, 1)[1]

    def _renders(self, messages: tuple[tuple[str, str], ...]) -> bool:
        self._system_role = True
        try:
            self._render(messages)
        except TemplateError:
            return False
        return True

    def _render(self, messages: tuple[tuple[str, str], ...]) -> str:
        if not self._system_role and messages[0][0] == "system":
            # Some templates know no system message: it then opens the first user message.
            (_, rules), (_, first), *later = messages
            messages = (("user", f"{rules}\n\n{first}"), *later)
        conversation: list[dict[str, Any]] = [  # Any: the library's message type
            {"role": role, "content": text} for role, text in messages
        ]
        return str(
            self._tokenizer.apply_chat_template(
                conversation, tokenize=False, add_generation_prompt=True
            )
        )

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))
