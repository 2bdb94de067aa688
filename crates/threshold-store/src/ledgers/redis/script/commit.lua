-- ARGV: base, the revision that was read, the last number, the channel or nothing, how many rows are written, their eight
-- fields each, then class, key and whose of those that are dropped. Answers 0 if somebody wrote meanwhile.
if count('revision', 0) ~= ARGV[2] then
  return 0
end
local at = 6
for _ = 1, tonumber(ARGV[5]) do
  local class, key, number, version = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local whom, ends, since, record = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6], ARGV[at + 7]
  if class == 'override' then
    -- It may have been somebody else's.
    local before = redis.call('HGET', base .. 'rows:override', key)
    local was = before and string.match(before, '^(%S+)') or '-'
    if was ~= '-' and was ~= whom then
      redis.call('ZREM', base .. 'whom:override:' .. was, key)
    end
  end
  redis.call('HSET', base .. 'rows:' .. class, key, whom .. ' ' .. number .. ' ' .. record)
  if listed[class] then
    index('number', class, number, key)
  end
  if version ~= '' then
    redis.call('ZADD', base .. 'changes', version, class .. ':' .. key)
  end
  if whom ~= '-' then
    redis.call('ZADD', base .. 'whom:' .. class .. ':' .. whom, number, key)
  end
  index('until', class, ends, key)
  index('since', class, since, key)
  at = at + 8
end
while ARGV[at] do
  forget(ARGV[at], ARGV[at + 1], ARGV[at + 2])
  at = at + 3
end
redis.call('HSET', meta, 'revision', count('revision', 1), 'last', ARGV[3])
if ARGV[4] ~= '' then
  redis.call('PUBLISH', ARGV[4], '')
end
return 1
