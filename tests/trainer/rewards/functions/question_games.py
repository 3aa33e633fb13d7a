"""Questions as games: whatever is replied ends them."""

from earl_envs import Game


class Question(Game):
    num_seats, num_actions, max_moves = 1, 1, 1

    def initial(self, rng):
        return 0

    def seat(self, state):
        return 0

    def legal(self, state):
        return [0]

    def apply(self, state, action):
        return 1

    def returns(self, state):
        return [0.0] if state else None

    def text(self, state, seat):
        return "?"

    def move_name(self, state, action):
        return "[done]"


class Sum(Question):
    def text(self, state, seat):
        return "1/4 + 1/2 = ?"

    def solution(self, state):
        return r"\frac{3}{4}"


class Doubling(Question):
    def text(self, state, seat):
        return "Write double(x)."

    def solution(self, state):
        return ["assert double(2) == 4", "assert double('a') == 'aa'", "assert double(0) == 0"]
