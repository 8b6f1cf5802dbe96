// SPDX-License-Identifier: Apache-2.0
// How well two scans agree under many shifts, and the best of the shifts. The CPU's: shifts_cpu.py.
//
// With few shifts a work-item looks up some of the points under one of them. With many, a work-item tries 32 at once, one in
// each bit of a word: those of one dy and of every second dx. Positions are subcells of the present grid. Every function is
// called by all work-items of a group.

#if LANES > 1
#define TOGETHER() BARRIER()
#define SUM_BEFORE(value, scratch, total) group_scan(value, scratch, total)
#else
#define TOGETHER()
#define SUM_BEFORE(value, scratch, total) (*(total) = (value), 0)
#endif

// The present and the former points of a component, and the bitmaps that they are compared with.
typedef struct {
    GLOBAL const RegistrationPass *pass;
    GLOBAL const address_t *now, *old;
    GLOBAL int2 *present, *former;
    int count, old_count;
} Compared;

// g: 1 within a subcell of a return, -1 where the cell is free, 0 elsewhere.
FUNCTION int agreement(GLOBAL const RegistrationPass *pass, GLOBAL const address_t *bitmap, int x, int y) {
    uint column = (uint)x, row = (uint)y;  // what is negative lies beyond the last
    if (column >= (uint)(SUBCELLS * pass->columns) || row >= (uint)(SUBCELLS * pass->rows)) return 0;
    address_t there = bitmap[row / SUBCELLS * pass->columns + column / SUBCELLS];
    if (there >> (NEAR_SHIFT + row % SUBCELLS * SUBCELLS + column % SUBCELLS) & 1) return 1;
    return -(int)(there >> FREE_BIT & 1);
}

// Position of a present subcell in the older grid, clamped to just outside of it.
FUNCTION int2 was_at(GLOBAL const RegistrationPass *pass, int x, int y) {
    if (pass->rolled) return INT2(x + (int)pass->x, y + (int)pass->y);
    real cx = x + 0.5, cy = y + 0.5;
    real old_x = floor(pass->xx * cx + pass->xy * cy + pass->x), old_y = floor(pass->yx * cx + pass->yy * cy + pass->y);
    return INT2((int)fmin(fmax(old_x, -1.0), 1e9), (int)fmin(fmax(old_y, -1.0), 1e9));
}

// Shifts to try: side x side of them, `step` (1 or 2) apart from `corner` on, with a squared length of at most `square`.
typedef struct {
    int2 corner;
    int side, step;
    real square;
} Shifts;

FUNCTION Shifts shifts_around(int2 middle, int reach, int step, real square) {
    Shifts s = {INT2(middle.x - reach, middle.y - reach), 2 * reach / step + 1, step, square};
    return s;
}

FUNCTION int2 shift_at(Shifts s, int k) { return INT2(s.corner.x + k % s.side * s.step, s.corner.y + k / s.side * s.step); }

FUNCTION int is_tried(Shifts s, int2 shift) {
    return (real)shift.x * shift.x + (real)shift.y * shift.y <= s.square;
}

// Whether there are work-items for several points of each shift.
FUNCTION int are_few(Shifts s) { return LANES > 1 && s.side * s.side <= LOCAL_SIZE; }

// Scores of few shifts: sums of g over the present points in the old scan, and over the former ones in the present scan.
FUNCTION void sum_few(const Compared *c, Shifts s, LOCAL int *sums) {
    int shifts = s.side * s.side, at = LOCAL_ID % shifts, first = LOCAL_ID / shifts, every = LOCAL_SIZE / shifts, total = 0;
    int2 shift = shift_at(s, at);
    TOGETHER();
    if (LOCAL_ID < shifts) sums[LOCAL_ID] = 0;
    TOGETHER();
    if (first < every) {
        UNROLL_8 for (int k = first; k < c->count; k += every) {
            int2 was = was_at(c->pass, c->present[k].x - shift.x, c->present[k].y - shift.y);
            total += agreement(c->pass, c->old, was.x, was.y);
        }
        UNROLL_8 for (int k = first; k < c->old_count; k += every)
            total += agreement(c->pass, c->now, c->former[k].x + shift.x, c->former[k].y + shift.y);
        ATOMIC_ADD(&sums[at], total);
    }
    TOGETHER();
}

// 32 subcells, every second of a line: those near a return, and those in free cells.
typedef struct {
    uint near, free;
} Bits;

// From (x, y) on: two words of the bitmap's lines, which components.cl draws.
FUNCTION Bits bits_of_line(GLOBAL const RegistrationPass *pass, GLOBAL const address_t *bitmap, int x, int y) {
    int words = WORDS_OF_LINE(pass), height = pass->rows * SUBCELLS, word = x >> 6, bit = x >> 1 & 31;
    GLOBAL const address_t *line = bitmap + pass->rows * pass->columns + (x & 1) * words * height + y;
    int inside = (uint)y < (uint)height;
    address_t low = inside && (uint)word < (uint)words ? line[word * height] : 0;
    address_t high = inside && (uint)(word + 1) < (uint)words ? line[(word + 1) * height] : 0;
    Bits bits = {(uint)((high << 32 | (low & 0xffffffffu)) >> bit), (uint)((high >> 32 << 32 | low >> 32) >> bit)};
    return bits;
}

// The same of the old bitmap along a present line, if the grid has turned since.
FUNCTION Bits bits_where_it_was(const Compared *c, int x, int y) {
    Bits bits = {0u, 0u};
    for (int i = 0; i < 32; ++i) {
        int2 was = was_at(c->pass, x + 2 * i, y);
        int here = agreement(c->pass, c->old, was.x, was.y);
        bits.near |= (uint)(here > 0) << i;
        bits.free |= (uint)(here < 0) << i;
    }
    return bits;
}

// 32 sums of g + 1 in parallel: binary digit d of all sums is word d. Points are looked up several at a time, to hide memory
// latency, and counted in short numbers before these are added to the long ones.
#define POINTS_AT_ONCE 8
#define SHORT_DIGITS 5
#define DIGITS 17  // 10,000 points at most were asked for, and up to twice as many are taken of both scans, 2 each

FUNCTION void count_point(uint *digits, Bits found, int counts) {
    uint two = counts ? found.near : 0u, one = counts ? ~(found.near | found.free) : 0u, carry = digits[0] & one;
    digits[0] ^= one;
    one = (digits[1] & two) | (carry & (digits[1] ^ two));
    digits[1] ^= two ^ carry;
    UNROLL for (int d = 2; d < SHORT_DIGITS; ++d) {
        carry = digits[d] & one;
        digits[d] ^= one;
        one = carry;
    }
}

FUNCTION void add_digits(uint *digits, const uint *more) {
    uint carry = 0u;
    UNROLL for (int d = 0; d < DIGITS; ++d) {
        uint other = d < SHORT_DIGITS ? more[d < SHORT_DIGITS ? d : 0] : 0u, either = digits[d] ^ other;
        uint next = (digits[d] & other) | (carry & either);
        digits[d] = either ^ carry;
        carry = next;
    }
}

FUNCTION uint reversed(uint bits) {
    bits = (bits >> 1 & 0x55555555u) | (bits & 0x55555555u) << 1;
    bits = (bits >> 2 & 0x33333333u) | (bits & 0x33333333u) << 2;
    bits = (bits >> 4 & 0x0f0f0f0fu) | (bits & 0x0f0f0f0fu) << 4;
    bits = (bits >> 8 & 0x00ff00ffu) | (bits & 0x00ff00ffu) << 8;
    return bits >> 16 | bits << 16;
}

// Sums of 32 shifts from `shift` on, 2 apart. Present points are looked up at -shift: they are counted from the last shift
// to the first, then reversed.
FUNCTION void tally(const Compared *c, int2 shift, uint *digits) {
    UNROLL for (int d = 0; d < DIGITS; ++d) digits[d] = 0u;
    for (int former = 0; former < 2; ++former) {  // in a loop: each copy of it takes PoCL seconds to compile
        GLOBAL const int2 *points = former ? c->former : c->present;
        GLOBAL const address_t *bitmap = former ? c->now : c->old;
        int count = former ? c->old_count : c->count, turned = !former && !c->pass->rolled;
        int dx = former ? shift.x : -shift.x - 62, dy = former ? shift.y : -shift.y;
        if (!former && !turned) {
            dx += (int)c->pass->x;
            dy += (int)c->pass->y;
        }
        for (int k = 0; k < count; k += POINTS_AT_ONCE) {
            Bits found[POINTS_AT_ONCE];
            UNROLL for (int j = 0; j < POINTS_AT_ONCE; ++j) {
                int2 point = points[min(k + j, count - 1)];
                found[j] = turned ? bits_where_it_was(c, point.x + dx, point.y + dy)
                                  : bits_of_line(c->pass, bitmap, point.x + dx, point.y + dy);
            }
            uint some[SHORT_DIGITS];
            UNROLL for (int d = 0; d < SHORT_DIGITS; ++d) some[d] = 0u;
            UNROLL for (int j = 0; j < POINTS_AT_ONCE; ++j) count_point(some, found[j], k + j < count);
            add_digits(digits, some);
        }
        UNROLL for (int d = 0; d < DIGITS; ++d) digits[d] = former ? digits[d] : reversed(digits[d]);
    }
}

// The highest of the sums in `*among`, which keeps those that reach it.
FUNCTION int highest(const uint *digits, uint *among) {
    int sum = 0;
    UNROLL for (int d = DIGITS - 1; d >= 0; --d) {
        uint with = *among & digits[d];
        if (with) *among = with, sum |= 1 << d;
    }
    return sum;
}

// Which of the sums are at least `least`.
FUNCTION uint reaching(const uint *digits, int least) {
    uint above = 0u, equal = 0xffffffffu;
    UNROLL for (int d = DIGITS - 1; d >= 0; --d) {
        if (least >> d & 1) {
            equal &= digits[d];
        } else {
            above |= equal & digits[d];
            equal &= ~digits[d];
        }
    }
    return above | equal;
}

// 32 of the shifts, of which `tried` are tried: the index of the first, and the distance between indices.
typedef struct {
    int first, stride;
    uint tried;
} Word;

FUNCTION int words_of(Shifts s) { return (s.step == 1 ? 2 * ((s.side + 63) / 64) : (s.side + 31) / 32) * s.side; }

FUNCTION Word word_at(Shifts s, int k) {
    int row = k % s.side, part = k / s.side, column = s.step == 1 ? part / 2 * 64 + part % 2 : part * 32;
    Word word = {row * s.side + column, 2 / s.step, 0u};
    for (int i = 0; i < 32 && column + i * word.stride < s.side; ++i)
        word.tried |= (uint)is_tried(s, shift_at(s, word.first + i * word.stride)) << i;
    return word;
}

FUNCTION int first_of(Word word, uint among) { return word.first + word.stride * (int)POPCOUNT((among & -among) - 1u); }

// The first of the shifts with the highest score above `best`, as (score, index); (best, NO_CELL) where none is.
FUNCTION int2 search(const Compared *c, Shifts s, int best, LOCAL int *shared, LOCAL int *sums) {
    int few = are_few(s), own = best, own_shift = NO_CELL;
    if (few) sum_few(c, s, sums);
    TOGETHER();
    if (LOCAL_ID == 0) shared[0] = best, shared[1] = NO_CELL;
    TOGETHER();
    for (int k = LOCAL_ID; k < (few ? s.side * s.side : words_of(s)); k += LOCAL_SIZE) {
        int here, place = k;
        if (few) {
            if (!is_tried(s, shift_at(s, k))) continue;
            here = sums[k];
        } else {
            uint digits[DIGITS];
            Word word = word_at(s, k);
            if (!word.tried) continue;
            tally(c, shift_at(s, word.first), digits);
            here = highest(digits, &word.tried) - c->count - c->old_count;
            place = first_of(word, word.tried);
        }
        if (here > own || (here == own && place < own_shift && here > best)) own = here, own_shift = place;
    }
    if (own > best) ATOMIC_MAX(&shared[0], own);
    TOGETHER();
    if (own > best && own == shared[0]) ATOMIC_MIN(&shared[1], own_shift);
    TOGETHER();
    return INT2(shared[0], shared[1]);
}
