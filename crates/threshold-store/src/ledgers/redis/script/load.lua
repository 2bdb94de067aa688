-- ARGV: base, how many single rows, their classes and keys, then classes and whose rows of them.
local found = { count('revision', 0), count('last', 0) }
local function add(class, key)
  local value = redis.call('HGET', base .. 'rows:' .. class, key)
  if value then
    found[#found + 1] = class
    found[#found + 1] = key
    found[#found + 1] = value
  end
end
local at = 3
for _ = 1, tonumber(ARGV[2]) do
  add(ARGV[at], ARGV[at + 1])
  at = at + 2
end
while ARGV[at] do
  for _, key in ipairs(redis.call('ZRANGE', base .. 'whom:' .. ARGV[at] .. ':' .. ARGV[at + 1], 0, -1)) do
    add(ARGV[at], key)
  end
  at = at + 2
end
return found
