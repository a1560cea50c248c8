<?php
// Locks of PHP's libraries, as Debian has them, on command: `php locks.php PORT hold KEY LIBRARY`.

use Symfony\Component\Lock\LockFactory;
use Symfony\Component\Lock\Store\RedisStore;

const LEASE_S = 3;
[, $port, , $key, $library] = $argv;
$redis = new Redis();
$redis->connect('127.0.0.1', (int) $port);

function symfony(Redis $redis, string $key): array
{
    require_once '/usr/share/php/Symfony/Component/Lock/autoload.php';
    $lock = (new LockFactory(new RedisStore($redis)))->createLock($key, LEASE_S, false);

    return [
        'take' => fn () => $lock->acquire() ?: exit(1),
        'renew' => fn () => $lock->refresh(),
        'release' => fn () => $lock->release(),
    ];
}

function laravel(Redis $redis, string $key): array
{
    require_once '/usr/share/php/Illuminate/autoload.php';
    global $port;
    $config = ['client' => 'phpredis', 'default' => ['host' => '127.0.0.1', 'port' => (int) $port]];
    $manager = new Illuminate\Redis\RedisManager(new stdClass(), 'phpredis', $config);
    $store = new Illuminate\Cache\RedisStore($manager, 'laravel_cache:');
    $lock = null;

    return [
        'take' => function () use (&$lock, $store, $key) {
            $lock = $store->lock($key, LEASE_S);
            $lock->get() ?: exit(1);
        },
        'release' => function () use (&$lock) {
            $lock->release();
        },
    ];
}

$packages = ['symfony/lock' => 'php-symfony-lock', 'laravel/framework' => 'php-laravel-framework'];
$version = shell_exec("dpkg-query --show --showformat='\${Version}' {$packages[$library]}");
$actions = $library === 'symfony/lock' ? symfony($redis, $key) : laravel($redis, $key);
echo "ready $version\n";
$now = fn () => (int) (microtime(true) * 1000);
while (($line = fgets(STDIN)) !== false) {
    $action = trim($line);
    $began = $now();
    $actions[$action]();
    echo "$action $began {$now()}\n";
}
