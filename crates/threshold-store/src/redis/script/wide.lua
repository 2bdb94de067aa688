-- Whole numbers of up to 144 bits, for what a double cannot hold: six limbs of 24 bits, the lowest first. Only buckets
-- whose rate has changed need them. One function makes them all, so that every other call pays for one function only.
local function wide()
  local LIMB, LIMBS = 16777216, 6

  local function carried(limbs)
    for i = 1, LIMBS do
      local high = math.floor((limbs[i] or 0) / LIMB)
      limbs[i] = (limbs[i] or 0) - high * LIMB
      if i < LIMBS then limbs[i + 1] = (limbs[i + 1] or 0) + high end
    end
    return limbs
  end

  local function of(number)
    return carried({ number })
  end

  local function product(x, y)
    local a, b, limbs = of(x), of(y), {}
    for i = 1, 3 do
      for j = 1, 3 do limbs[i + j - 1] = (limbs[i + j - 1] or 0) + a[i] * b[j] end
    end
    return carried(limbs)
  end

  local function sum(a, b)
    local limbs = {}
    for i = 1, LIMBS do limbs[i] = a[i] + b[i] end
    return carried(limbs)
  end

  local function at_most(a, b)
    for i = LIMBS, 1, -1 do
      if a[i] ~= b[i] then return a[i] < b[i] end
    end
    return true
  end

  -- Nothing if b is larger.
  local function less(a, b)
    local limbs = {}
    if at_most(a, b) then return of(0) end
    for i = 1, LIMBS do limbs[i] = a[i] - b[i] end
    return carried(limbs)
  end

  -- Bit by bit: the rest stays below twice the divisor, which is at most 2^52.
  local function quotient(a, divisor)
    local limbs, rest = {}, 0
    for i = LIMBS, 1, -1 do
      local digit, bit = 0, LIMB
      while bit > 1 do
        bit = bit / 2
        rest = rest * 2 + math.floor(a[i] / bit) % 2
        digit = digit * 2
        if rest >= divisor then digit, rest = digit + 1, rest - divisor end
      end
      limbs[i] = digit
    end
    return limbs, rest
  end

  local function rounded_up(a, divisor)
    local limbs, rest = quotient(a, divisor)
    if rest > 0 then limbs = sum(limbs, of(1)) end
    return limbs
  end

  -- For what is known to fit.
  local function number(a)
    return a[1] + LIMB * (a[2] + LIMB * a[3])
  end

  local function divisor_of_both(a, b)
    while b ~= 0 do a, b = b, math.fmod(a, b) end
    return a
  end

  -- The count of the rate that a mark stands for, and what is owed under it, in tokens times the period.
  local function owed(at, rest, mark, now, period)
    local short = math.fmod(mark, 8589934592)
    local doubled = (mark - short) / 8589934592
    local count = math.max(short * 2 ^ doubled, 1)
    local more = rest > 0 and of(count) or of(0)
    if doubled == 0 then more = product(rest, divisor_of_both(period, count)) end
    return count, sum(product(at - now, count), more)
  end

  -- Judges a bucket whose state is of another rate: the instant and the rest from which the price counts; none if it is
  -- refused.
  local function carry(at, rest, mark, now, per, spare, period, divisor)
    local _, due = owed(at, rest, mark, now, period)
    if not at_most(due, product(spare, period)) then return nil end
    local micros, fine = quotient(rounded_up(due, divisor), per)
    return now + number(micros), fine
  end

  -- Takes back a price from a bucket whose state is of another rate: the instant that is left; none if nothing is.
  local function give_back(at, rest, mark, now, gone, price, fine, per, period, divisor)
    local drain, due = owed(at, rest, mark, now, period)
    local count = per * divisor
    local whole = sum(product(price, count), product(fine, divisor))
    local back = less(whole, product(gone, math.max(drain, count)))
    local left = number(rounded_up(less(due, back), drain))
    if left == 0 then return nil end
    return math.min(now + left, at)
  end

  return carry, give_back
end
