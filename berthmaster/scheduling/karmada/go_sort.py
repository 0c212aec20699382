"""The order in which Go's ``sort.Slice`` leaves equal elements, which decides ties of Karmada."""

from collections.abc import Sequence
from typing import Final

STABLE_UP_TO: Final = 12
"""Go sorts up to this many elements with an insertion sort."""
_SHORTEST_NINTHER: Final = 50
_SHORTEST_SHIFTING: Final = 50
_MOST_SHIFTS: Final = 5
_SHORTEST_PATTERN: Final = 8
_MOST_SWAPS: Final = 12
_MASK_64: Final = 2**64 - 1


def order_by_weight(weights: Sequence[int]) -> list[int]:
    """Return the positions of the weights after Go has sorted them, largest first."""
    sorter = _GoSorter([-weight for weight in weights])
    length = len(weights)
    sorter.sort(0, length, length.bit_length())
    return sorter.order


class _GoSorter:
    """Sort ``keys`` ascending and permute ``order`` in the same way."""

    def __init__(self, keys: list[int]) -> None:
        self.keys = keys
        self.order = list(range(len(keys)))

    def less(self, i: int, j: int) -> bool:
        return self.keys[i] < self.keys[j]

    def swap(self, i: int, j: int) -> None:
        keys, order = self.keys, self.order
        keys[i], keys[j] = keys[j], keys[i]
        order[i], order[j] = order[j], order[i]

    def sort(self, low: int, high: int, bad_pivots_left: int) -> None:
        balanced = partitioned = True
        while high - low > STABLE_UP_TO:
            if bad_pivots_left == 0:
                self.heap_sort(low, high)
                return
            if not balanced:
                self.break_patterns(low, high)
                bad_pivots_left -= 1
            pivot, swaps = self.choose_pivot(low, high)
            if swaps == _MOST_SWAPS:
                self.reverse(low, high)
                pivot = (high - 1) - (pivot - low)
            if balanced and partitioned and swaps in {0, _MOST_SWAPS} and self.finish_nearly_sorted(low, high):
                return
            if low > 0 and not self.less(low - 1, pivot):
                low = self.partition_equal(low, high, pivot)
                continue
            middle, partitioned = self.partition(low, high, pivot)
            left, right = middle - low, high - middle
            balanced = min(left, right) >= (high - low) // 8
            if left < right:
                self.sort(low, middle, bad_pivots_left)
                low = middle + 1
            else:
                self.sort(middle + 1, high, bad_pivots_left)
                high = middle
        for start in range(low + 1, high):
            self.shift_down(start, low)

    def shift_down(self, start: int, low: int) -> None:
        while start > low and self.less(start, start - 1):
            self.swap(start, start - 1)
            start -= 1

    def heap_sort(self, low: int, high: int) -> None:
        length = high - low
        for root in range((length - 1) // 2, -1, -1):
            self.sift_down(root, length, low)
        for last in range(length - 1, -1, -1):
            self.swap(low, low + last)
            self.sift_down(0, last, low)

    def sift_down(self, root: int, length: int, low: int) -> None:
        while (child := 2 * root + 1) < length:
            if child + 1 < length and self.less(low + child, low + child + 1):
                child += 1
            if not self.less(low + root, low + child):
                return
            self.swap(low + root, low + child)
            root = child

    def break_patterns(self, low: int, high: int) -> None:
        """Swap three elements with others that a xorshift generator chooses, seeded by the length."""
        length = high - low
        if length < _SHORTEST_PATTERN:
            return
        random = length
        modulus = 1 << length.bit_length()
        middle = low + (length // 4) * 2
        for offset in range(3):
            random ^= random << 13 & _MASK_64
            random ^= random >> 7
            random ^= random << 17 & _MASK_64
            other = random & (modulus - 1)
            self.swap(middle - 1 + offset, low + (other - length if other >= length else other))

    def choose_pivot(self, low: int, high: int) -> tuple[int, int]:
        """Return a pivot and the number of swaps to find it: 0 hints at ascending, 12 at descending order."""
        length = high - low
        first, second, third = (low + length // 4 * quarter for quarter in (1, 2, 3))
        swaps = 0
        if length >= _SHORTEST_NINTHER:
            first, swaps = self.median(first - 1, first, first + 1, swaps)
            second, swaps = self.median(second - 1, second, second + 1, swaps)
            third, swaps = self.median(third - 1, third, third + 1, swaps)
        return self.median(first, second, third, swaps)

    def median(self, a: int, b: int, c: int, swaps: int) -> tuple[int, int]:
        if self.less(b, a):
            a, b, swaps = b, a, swaps + 1
        if self.less(c, b):
            b, c, swaps = c, b, swaps + 1
        if self.less(b, a):
            a, b, swaps = b, a, swaps + 1
        return b, swaps

    def reverse(self, low: int, high: int) -> None:
        self.keys[low:high] = self.keys[low:high][::-1]
        self.order[low:high] = self.order[low:high][::-1]

    def finish_nearly_sorted(self, low: int, high: int) -> bool:
        """Sort with a few shifts. Return whether that was enough."""
        at = low + 1
        for _ in range(_MOST_SHIFTS):
            while at < high and not self.less(at, at - 1):
                at += 1
            if at == high:
                return True
            if high - low < _SHORTEST_SHIFTING:
                return False
            self.swap(at, at - 1)
            if at - low >= 2:
                self.shift_down(at - 1, 0)
            start = at + 1
            while start < high and self.less(start, start - 1):
                self.swap(start, start - 1)
                start += 1
        return False

    def partition_equal(self, low: int, high: int, pivot: int) -> int:
        """Move elements equal to the pivot to the front. Return where the greater ones begin."""
        self.swap(low, pivot)
        i, j = low + 1, high - 1
        while True:
            while i <= j and not self.less(low, i):
                i += 1
            while i <= j and self.less(low, j):
                j -= 1
            if i > j:
                return i
            self.swap(i, j)
            i, j = i + 1, j - 1

    def partition(self, low: int, high: int, pivot: int) -> tuple[int, bool]:
        """Move elements less than the pivot to the front. Return the pivot's position, and if nothing had to move."""
        self.swap(low, pivot)
        i, j = low + 1, high - 1
        already = True
        while True:
            while i <= j and self.less(i, low):
                i += 1
            while i <= j and not self.less(j, low):
                j -= 1
            if i > j:
                self.swap(j, low)
                return j, already
            already = False
            self.swap(i, j)
            i, j = i + 1, j - 1
