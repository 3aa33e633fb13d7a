"""What a forward pass reads: a token of every reply that goes on, and of prompts what fits."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from earl_trainer.rollout.conversation_rows import Conversation, ConversationRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """What a pass reads into the row of one conversation."""

    conversation: Conversation
    ids: Sequence[int]
    heirs: list[Conversation] = field(default_factory=list[Conversation])
    """Others with the same context, to share what has been read to its end."""

    @property
    def readers(self) -> list[Conversation]:
        """All whose contexts it is."""
        return [self.conversation, *self.heirs]

    @property
    def is_last(self) -> bool:
        """Whether the whole context is read with it."""
        return self.conversation.num_held + len(self.ids) == len(self.conversation.tokens)


def plan_reads(rows: ConversationRows, *, max_read_tokens: int, share_prefixes: bool) -> list[Read]:
    """Choose what the next pass reads, for replies in the order in which they were begun.

    Of conversations with the same first prompt one is read and the others wait to be its heirs;
    where a row holds that prompt already, it is copied and its last token alone is read again, for
    the logits after it.

    Args:
        rows: The conversations.
        max_read_tokens: The most tokens of contexts that are not merely one token short.
        share_prefixes: Whether equal first prompts are read once.
    """
    running = rows.running
    reads: list[Read] = []
    readers: dict[tuple[int, ...], Read] = {}
    new = [each for each in running if share_prefixes and _is_new(each)]
    sources = _find_sources(rows) if new else {}
    for each in running:
        if share_prefixes and _is_new(each):
            if each.first_prompt in readers:
                readers[each.first_prompt].heirs.append(each)
                continue
            if each.first_prompt in sources:
                num_tokens = len(each.first_prompt) - 1
                rows.share(sources[each.first_prompt], [each], num_tokens=num_tokens)
        ids = each.unread
        if len(ids) > 1:
            ids = ids[:max_read_tokens]
            max_read_tokens -= len(ids)
        if not ids:
            continue
        reads.append(Read(conversation=each, ids=ids))
        if each.has_only_prompt:
            readers[each.first_prompt] = reads[-1]
    return reads


def _is_new(conversation: Conversation) -> bool:
    return conversation.has_only_prompt and not conversation.num_held


def _find_sources(rows: ConversationRows) -> dict[tuple[int, ...], Conversation]:
    """Return conversations by the first prompt that their rows hold, but for its last token."""
    return {
        each.first_prompt: each
        for each in rows.all
        if 0 < len(each.first_prompt) - 1 <= each.num_held
    }
