-- Sliding logs and permits, which are lists. Each is a sorted set: an admission "at:cost" scored by its time, a permit
-- "e" and its id scored by when it lapses, with "c" and its id scored by its cost below zero where that is not one. The
-- member "t" is scored by the total of all costs, below zero, and is never first to go.
local function lists(blob, now, lives)
  local call, read, write = redis.call, struct.unpack, struct.pack
  local LOG, ACQUIRE, RENEW = 4, 5, 6
  -- Of the batch that is judged: what it met, whom it names, and what was found.
  local states, named, found = {}, nil, {}

  local function plain(number)
    return string.format('%.0f', number)
  end

  local function total_of(key)
    return -(tonumber(call('ZSCORE', key, 't') or 0))
  end

  -- The last member by score, unless there is nothing but the total.
  local function newest(key)
    local last = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
    if last[1] and last[1] ~= 't' then return last[1], tonumber(last[2]) end
  end

  local function outlives(key, until_)
    call('PEXPIREAT', key, lives or plain(math.floor(until_ / 1000) + 2))
  end

  -- Sliding logs.

  local function cost_in(member)
    return tonumber(string.match(member, ':(%d+)'))
  end

  local function cost_up_to(key, gone)
    local cost = 0
    for _, member in ipairs(call('ZRANGEBYSCORE', key, 0, plain(gone))) do cost = cost + cost_in(member) end
    return cost
  end

  local function open_log(k, period)
    local key, total = KEYS[k], total_of(KEYS[k])
    local member, last = newest(key)
    if last then
      -- What had left the window when the last was admitted is gone for good.
      local gone = cost_up_to(key, last - period)
      if gone > 0 then
        total = total - gone
        call('ZREMRANGEBYSCORE', key, 0, plain(last - period))
        call('ZADD', key, plain(-total), 't')
      end
    end
    local at = math.max(now, last or 0)
    local live = total - cost_up_to(key, at - period)
    found[k] = write('<dd', live, last or 0)
    return { log = true, total = total, member = member, last = last, at = at, live = live, period = period, pushed = 0 }
  end

  -- The first admissions that have to leave before a refused one passes.
  local function first_to_leave(k, log, needed)
    local most, rows = math.max(log.at - log.period, 0), { found[k]:sub(1, 16) }
    for _, member in ipairs(call('ZRANGEBYSCORE', KEYS[k], '(' .. plain(most), '+inf', 'LIMIT', 0, plain(needed))) do
      rows[#rows + 1] = write('<dd', tonumber(string.match(member, '^%d+')), cost_in(member))
      needed = needed - cost_in(member)
      if needed <= 0 then break end
    end
    found[k] = table.concat(rows)
  end

  local function judge_log(k, position)
    local cost, count, period = read('<ddd', blob, position + 4)
    local log = states[k] or open_log(k, period)
    states[k] = log
    if log.live + cost <= count then
      log.live, log.pushed = log.live + cost, log.pushed + cost
      return true
    end
    local needed = log.live + cost - count
    if cost <= count and needed > (log.needed or 0) then
      log.needed = needed
      first_to_leave(k, log, needed)
    end
    return false
  end

  local function settle_log(key, log)
    if log.pushed == 0 then return end
    local cost = log.pushed
    if log.last == log.at then
      cost = cost + cost_in(log.member)
      call('ZREM', key, log.member)
    end
    local at = plain(log.at)
    call('ZADD', key, at, at .. ':' .. plain(cost), plain(-log.total - log.pushed), 't')
    outlives(key, log.at + log.period)
  end

  -- Permits.

  local function cost_of(key, id)
    return -(tonumber(call('ZSCORE', key, 'c' .. id) or -1))
  end

  local function remove(key, permits, id)
    permits.total = permits.total - cost_of(key, id)
    call('ZREM', key, 'e' .. id, 'c' .. id)
  end

  local function put(key, permits, id, expires, cost)
    permits.total = permits.total + cost
    call('ZADD', key, plain(expires), 'e' .. id)
    if cost ~= 1 then call('ZADD', key, plain(-cost), 'c' .. id) end
  end

  -- Those that lapse by then, and what they cost together.
  local function lapsed(key, by)
    local ids, cost = call('ZRANGEBYSCORE', key, 0, plain(by)), 0
    for i, member in ipairs(ids) do
      ids[i] = member:sub(2)
      cost = cost + cost_of(key, ids[i])
    end
    return ids, cost
  end

  -- Time does not go back behind the latest permit.
  local function not_before(key, lifetime)
    local _, last = newest(key)
    return math.max(now, (last or 0) - lifetime)
  end

  local function used(key, permits, at)
    local _, cost = lapsed(key, at)
    return permits.total - cost
  end

  -- What was found: the named ones, the rest as one that lapses with its last, and room for the first of the rest.
  local function describe(k, permits)
    local key, at, rows, of_named = KEYS[k], not_before(KEYS[k], permits.lifetime), {}, 0
    local count = 0
    for id in pairs(named[k]) do
      count = count + 1
      local expires = tonumber(call('ZSCORE', key, 'e' .. id) or 0)
      if expires > at then
        rows[#rows + 1] = write('<c16dd', id, expires, cost_of(key, id))
        of_named = of_named + cost_of(key, id)
      end
    end
    local last, all = 0, call('ZREVRANGE', key, 0, count, 'WITHSCORES')
    for i = 1, #all, 2 do
      local kind, id = all[i]:sub(1, 1), all[i]:sub(2)
      if last == 0 and kind == 'e' and not named[k][id] then last = tonumber(all[i + 1]) end
    end
    permits.named, permits.at, permits.rows = count, at, table.concat(rows)
    permits.rest = write('<dd', used(key, permits, at) - of_named, last)
    found[k] = permits.rest .. write('<H', #rows) .. permits.rows
  end

  local function open_permits(k, lifetime)
    local key = KEYS[k]
    local permits = { total = total_of(key), lifetime = lifetime, undo = {} }
    local _, last = newest(key)
    if last then
      for _, id in ipairs((lapsed(key, last - lifetime))) do
        remove(key, permits, id)
        call('ZADD', key, plain(-permits.total), 't')
      end
    end
    describe(k, permits)
    return permits
  end

  -- The first of the rest that have to lapse before a refused one passes.
  local function first_to_lapse(k, permits, needed)
    local most = needed + permits.named
    local all = call('ZRANGEBYSCORE', KEYS[k], '(' .. plain(permits.at), '+inf', 'WITHSCORES', 'LIMIT', 0, plain(most))
    local rows = {}
    for i = 1, #all, 2 do
      local id = all[i]:sub(2)
      if needed > 0 and not named[k][id] then
        local cost = cost_of(KEYS[k], id)
        rows[#rows + 1] = write('<c16dd', id, tonumber(all[i + 1]), cost)
        needed = needed - cost
      end
    end
    local count = #permits.rows / 32
    found[k] = permits.rest .. write('<H', count) .. permits.rows .. table.concat(rows)
  end

  -- Keeps the permit that is held; false if none is.
  local function extend(key, permits, id, at)
    local expires = tonumber(call('ZSCORE', key, 'e' .. id) or 0)
    if expires <= at then return false end
    permits.undo[#permits.undo + 1] = { id, expires, cost_of(key, id) }
    call('ZADD', key, plain(math.max(expires, at + permits.lifetime)), 'e' .. id)
    return true
  end

  local function acquire(k, permits, id, cost, count)
    local key, at = KEYS[k], not_before(KEYS[k], permits.lifetime)
    if extend(key, permits, id, at) then return true end
    local needed = used(key, permits, at) + cost - count
    if needed > 0 then
      if cost <= count and needed > (permits.needed or 0) then
        permits.needed = needed
        first_to_lapse(k, permits, needed)
      end
      return false
    end
    -- One that lapsed may still stand under the same name.
    local before = call('ZSCORE', key, 'e' .. id)
    if before then
      permits.undo[#permits.undo + 1] = { id, tonumber(before), cost_of(key, id) }
      remove(key, permits, id)
    else
      permits.undo[#permits.undo + 1] = { id }
    end
    put(key, permits, id, at + permits.lifetime, cost)
    return true
  end

  local function judge_permit(what, k, position)
    local id, cost, count, lifetime = read('<c16ddd', blob, position + 4)
    local permits = states[k] or open_permits(k, lifetime)
    states[k] = permits
    local key = KEYS[k]
    if what == ACQUIRE then return acquire(k, permits, id, cost, count) end
    if what == RENEW then return extend(key, permits, id, not_before(key, lifetime)) end
    local before = call('ZSCORE', key, 'e' .. id)
    if before then
      permits.undo[#permits.undo + 1] = { id, tonumber(before), cost_of(key, id) }
      remove(key, permits, id)
    end
    return true
  end

  local function take_back(key, permits)
    for i = #permits.undo, 1, -1 do
      local id, expires, cost = unpack(permits.undo[i])
      if call('ZSCORE', key, 'e' .. id) then remove(key, permits, id) end
      if expires then put(key, permits, id, expires, cost) end
    end
  end

  local function settle_permits(key, permits, charged)
    if #permits.undo == 0 then return end
    if not charged then return take_back(key, permits) end
    if permits.total == 0 then return call('DEL', key) end
    call('ZADD', key, plain(-permits.total), 't')
    local _, last = newest(key)
    outlives(key, last)
  end

  -- The permits that a batch names, by key.
  local function names(start, steps)
    local names = {}
    for position = start, start + (steps - 1) * 76, 76 do
      local what, _, k, id = read('<BBHc16', blob, position)
      if what > LOG then
        names[k] = names[k] or {}
        names[k][id] = true
      end
    end
    return names
  end

  local function judge(what, k, position, start, steps)
    if what == LOG then return judge_log(k, position) end
    named = named or names(start, steps)
    return judge_permit(what, k, position)
  end

  -- Ends a batch: writes or takes back, and says what was found.
  local function settle(charged, reply, verdict, start, steps)
    for k, state in pairs(states) do
      if not state.log then
        settle_permits(KEYS[k], state, charged)
      elseif charged then
        settle_log(KEYS[k], state)
      end
    end
    for step = 1, steps do
      local what, _, k = read('<BBH', blob, start + (step - 1) * 76)
      if what > 3 then reply[verdict + step] = found[k] end
    end
    states, named, found = {}, nil, {}
  end

  return judge, settle
end
